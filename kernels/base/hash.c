/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-1-3 (Aumasson, Bernstein 2012) under a random key. */
#include "kernels/base/hash.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <sys/random.h>

static uint64_t key[2];
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void draw_key(void)
{
    /* Without a random source the key is only hard to guess: the time and
     * where the program lies. */
    if (getrandom(key, sizeof(key), GRND_NONBLOCK) != sizeof(key)) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        key[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
        key[1] = (uint64_t)(uintptr_t)key;
    }
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

uint64_t hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *s = data;
    uint64_t v[4], word;
    size_t left = bytes;

    pthread_once(&key_once, draw_key);
    v[0] = key[0] ^ 0x736f6d6570736575u;
    v[1] = key[1] ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u;
    v[3] = key[1] ^ 0x7465646279746573u;
    for (; left >= 8; left -= 8, s += 8) {
        memcpy(&word, s, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    if (left > 0)
        memcpy(&word, s, left);
    word ^= (uint64_t)bytes << 56;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t hash_name(const char *name)
{
    return hash_bytes(name, strlen(name));
}
