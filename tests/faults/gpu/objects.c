/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that live, and calls that fail: see standin.h. */
#include "tests/faults/gpu/standin.h"

#include <stdlib.h>

#define OBJECTS 65536

struct standin standin = {.devices = 2};

const char *const standin_kinds[STANDIN_KINDS] = {
    [STANDIN_MEMORY] = "blocks of device memory",
    [STANDIN_PINNED] = "blocks of pinned memory",
    [STANDIN_STREAM] = "streams",
    [STANDIN_EVENT] = "events",
    [STANDIN_GRAPH] = "graphs",
    [STANDIN_HANDLE] = "handles",
    [STANDIN_DESCRIPTOR] = "descriptors",
    [STANDIN_COMMUNICATOR] = "communicators",
};

static struct object {
    void *address; /* NULL: free */
    size_t bytes;
    enum standin_kind kind;
} objects[OBJECTS];

bool standin_fails(const char *function)
{
    const long k = ++standin.calls;
    const bool lost = standin.failed && standin.fault == STANDIN_STICKY;

    if (!(standin.nth > 0 &&
          (k == standin.nth || (k > standin.nth && (standin.onward || lost)))))
        return false;
    if (!standin.failed)
        standin.failed = function;
    return true;
}

static struct object *find(enum standin_kind kind, const void *address)
{
    for (int i = 0; address && i < OBJECTS; i++)
        if (objects[i].address == address && objects[i].kind == kind)
            return &objects[i];
    return NULL;
}

void *standin_make(enum standin_kind kind, size_t bytes)
{
    void *address = aligned_alloc(256, (bytes + 255) / 256 * 256);

    for (int i = 0; address && i < OBJECTS; i++)
        if (!objects[i].address) {
            for (size_t k = 0; k < bytes; k++)
                ((unsigned char *)address)[k] = 0;
            objects[i] = (struct object){address, bytes, kind};
            standin.live[kind]++;
            return address;
        }
    abort();
}

void standin_drop(enum standin_kind kind, void *address)
{
    struct object *o = find(kind, address);

    if (!o) {
        standin.misuses++;
        return;
    }
    o->address = NULL;
    standin.live[kind]--;
    free(address);
}

bool standin_has(enum standin_kind kind, const void *address)
{
    return find(kind, address) != NULL;
}

bool standin_holds(enum standin_kind kind, const void *from, size_t bytes)
{
    const uintptr_t at = (uintptr_t)from;

    for (int i = 0; i < OBJECTS; i++) {
        const uintptr_t begin = (uintptr_t)objects[i].address;

        if (begin && objects[i].kind == kind && at >= begin &&
            at + bytes <= begin + objects[i].bytes)
            return true;
    }
    return false;
}
