/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams wait for: see standin.h.  A stream has a vector clock, the
 * counts of the work of each stream that its next work waits for; an event has
 * that of the stream that recorded it.
 */
#include "tests/faults/gpu/standin.h"

#include <stdlib.h>
#include <string.h>

#define STREAMS 64
#define EVENTS  256
#define COPIES  4096

struct clock {
    long of[STREAMS];
};

static struct {
    const void *stream;
    struct clock clock;
} streams[STREAMS];
static int n_streams;

static struct {
    const void *event;
    struct clock clock;
} events[EVENTS];
static int n_events;

/* Copies to the host, the last one at each place. */
static struct {
    const void *at;
    size_t bytes;
    int stream;
    long time;
} copies[COPIES];
static int n_copies;

long standin_copies[2];

/* A stream's number.  One that is destroyed leaves its count to the next one at
 * its address, which waits for no more than it did. */
static int number(const void *stream)
{
    for (int i = 0; i < n_streams; i++)
        if (streams[i].stream == stream)
            return i;
    if (n_streams == STREAMS)
        abort();
    streams[n_streams].stream = stream;
    return n_streams++;
}

void standin_order_work(const void *stream)
{
    const int i = number(stream);

    streams[i].clock.of[i]++;
}

void standin_order_record(const void *event, const void *stream)
{
    int i = 0;

    while (i < n_events && events[i].event != event)
        i++;
    if (i == EVENTS)
        abort();
    n_events += i == n_events;
    events[i].event = event;
    events[i].clock = streams[number(stream)].clock;
}

void standin_order_wait(const void *stream, const void *event)
{
    struct clock *c = &streams[number(stream)].clock;

    for (int i = 0; i < n_events; i++)
        for (int k = 0; events[i].event == event && k < STREAMS; k++)
            if (events[i].clock.of[k] > c->of[k])
                c->of[k] = events[i].clock.of[k];
}

static void to_host(int stream, const void *at, size_t bytes)
{
    int i = 0;

    while (i < n_copies && copies[i].at != at)
        i++;
    if (i == COPIES)
        abort();
    n_copies += i == n_copies;
    copies[i].at = at;
    copies[i].bytes = bytes;
    copies[i].stream = stream;
    copies[i].time = streams[stream].clock.of[stream];
    standin_copies[0]++;
}

static void from_host(int stream, const void *at, size_t bytes)
{
    const struct clock *c = &streams[stream].clock;
    bool there = false;

    for (int i = 0; i < n_copies; i++)
        there = there || (copies[i].at == at && copies[i].bytes == bytes &&
                          c->of[copies[i].stream] >= copies[i].time);
    standin.misuses += !there;
    standin_copies[1]++;
}

void standin_order_copy(const void *stream, const void *dst, const void *src,
                        size_t bytes)
{
    const int i = number(stream);

    streams[i].clock.of[i]++;
    if (standin_holds(STANDIN_PINNED, dst, bytes) &&
        standin_holds(STANDIN_MEMORY, src, bytes))
        to_host(i, dst, bytes);
    else if (standin_holds(STANDIN_MEMORY, dst, bytes) &&
             standin_holds(STANDIN_PINNED, src, bytes))
        from_host(i, src, bytes);
    else
        standin.misuses++;
}

/* ---- captures ------------------------------------------------------ */

static struct clock begun;

void standin_order_begin(const void *stream)
{
    (void)stream;
    for (int i = 0; i < n_streams; i++)
        begun.of[i] = streams[i].clock.of[i];
}

bool standin_order_joined(const void *stream)
{
    const struct clock *c = &streams[number(stream)].clock;
    bool joined = true;

    for (int i = 0; i < n_streams; i++) {
        const long now = streams[i].clock.of[i];

        joined = joined && (now == begun.of[i] || c->of[i] >= now);
        begun.of[i] = now;
    }
    return joined;
}
