/* SPDX-License-Identifier: Apache-2.0 */
/* Mutator of zip archives (npz, .keras, .pth, .pt2): changes a member, its name
 * or the list, and packs them anew with the right sizes and CRCs.  Members and
 * inputs that are JSON are changed as such, others as bytes. */
#include "tests/fuzz/mutate/json.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/zipmaker.h"
#include "weights/weights.h"
#include "weights/zip.h"

#define MAX_MEMBERS 32
#define MAX_MEMBER  ((size_t)1 << 16)

struct member {
    char *name;
    size_t name_bytes;
    uint8_t *data;
    size_t bytes;
    unsigned method;
};

static void members_clear(struct member *m, int n)
{
    for (int i = 0; i < n; i++) {
        free(m[i].name);
        free(m[i].data);
    }
}

/* Copies what the reader takes; members that it refuses are left out. */
static int zip_split(const uint8_t *data, size_t size, struct member *out)
{
    uint8_t *copy = malloc(size + 1);
    struct blob *blob = copy ? blob_new(copy, size) : NULL;
    struct infer_error err;
    struct zipfile zip;
    int n = 0;

    if (!blob)
        return 0;
    memcpy(blob->data, data, size);
    if (zipfile_open(blob, &err, &zip) == 0) {
        for (size_t i = 0; i < zip.count && n < MAX_MEMBERS; i++) {
            struct zipfile_data d;
            struct member *m = &out[n];

            if (zip.entry[i].bytes > MAX_MEMBER ||
                zipfile_read(&zip, i, &err, &d) < 0)
                continue;
            m->name = strdup(zip.entry[i].name);
            m->name_bytes = m->name ? strlen(m->name) : 0;
            m->data = malloc(d.bytes + 1);
            m->bytes = d.bytes;
            m->method = zip.entry[i].method;
            n += m->name && m->data;
            if (m->name && m->data && d.bytes > 0)
                memcpy(m->data, d.data, d.bytes);
            zipfile_data_clear(&d);
        }
        zipfile_close(&zip);
    }
    blob_unref(blob);
    return n;
}

static size_t zip_join(uint8_t *out, size_t room, const struct member *m, int n)
{
    struct zipmaker zip = {0};
    size_t size;

    for (int i = 0; i < n; i++) {
        const struct zipmaker_entry e = {.name = m[i].name,
                                         .name_bytes = m[i].name_bytes,
                                         .data = m[i].data,
                                         .bytes = m[i].bytes,
                                         .method = m[i].method};

        zipmaker_put(&zip, &e);
    }
    zipmaker_end(&zip);
    size = zip.file.bytes <= room ? zip.file.bytes : 0;
    memcpy(out, zip.file.data, size);
    zipmaker_clear(&zip);
    return size;
}

/* A changed copy of a member; *bytes becomes its size.  NULL: out of memory. */
static uint8_t *change_data(const uint8_t *data, size_t *bytes, unsigned *state)
{
    const size_t room = *bytes + 256;
    uint8_t *copy;

    if (!json_begins(data, *bytes))
        return mutate_copy(data, bytes, 64);
    copy = malloc(room);
    if (copy) {
        memcpy(copy, data, *bytes);
        *bytes = json_change(copy, *bytes, room, state);
    }
    return copy;
}

static void zip_change(struct member *m, int n, unsigned *state)
{
    struct member *a = &m[mutate_random(state) % (unsigned)n];
    struct member *b = &m[mutate_random(state) % (unsigned)n];
    const struct member saved = *a;
    uint8_t *copy;

    switch (mutate_random(state) % 8) {
    case 0: /* changes places */
        *a = *b;
        *b = saved;
        break;
    case 1: /* deflated or stored */
        a->method = a->method ? 0 : 8;
        break;
    case 2:
        copy = mutate_copy(a->name, &a->name_bytes, 8);
        if (!copy) {
            a->name_bytes = saved.name_bytes;
            break;
        }
        copy[a->name_bytes] = 0;
        free(a->name);
        a->name = (char *)copy;
        break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        copy = change_data(a->data, &a->bytes, state);
        if (!copy) {
            a->bytes = saved.bytes;
            break;
        }
        free(a->data);
        a->data = copy;
        break;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    struct member member[MAX_MEMBERS];
    unsigned state = mutate_seed(seed);
    size_t made = 0;
    int n = 0;

    mutate_random(&state);
    if (size > 4 && memcmp(data, "PK", 2) == 0 &&
        mutate_random(&state) % 8 != 0)
        n = zip_split(data, size, member);
    if (n > 0) {
        zip_change(member, n, &state);
        made = zip_join(data, max_size, member, n);
        members_clear(member, n);
    } else if (json_begins(data, size) && mutate_random(&state) % 8 != 0)
        made = json_change(data, size, max_size, &state);
    return made > 0 ? made : LLVMFuzzerMutate(data, size, max_size);
}
