/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles as torch.save() writes them, and archives round them. */
#ifndef TESTS_UNIT_WEIGHTS_PICKLE_WRITER_H
#define TESTS_UNIT_WEIGHTS_PICKLE_WRITER_H

#include "tests/unit/weights/formats_help.h"

extern const struct weights_format weights_format_pytorch;
#define PT (&weights_format_pytorch)

static inline void put_text(struct maker *m, const char *text)
{
    maker_text(m, "X");
    maker_int(m, strlen(text), 4);
    maker_text(m, text);
}

static inline void put_int(struct maker *m, int64_t value)
{
    maker_int(m, 0x8a, 1);
    maker_int(m, 8, 1);
    maker_int(m, (uint64_t)value, 8);
}

/* A tensor as torch.save() writes it. */
struct spec {
    const char *class; /* "FloatStorage" */
    const char *key;
    int64_t count, offset;
    int rank, strides; /* strides: how many; rank unless it lies */
    int64_t size[4], stride[4];
    const char *view; /* of the storage: opcodes of the sixth item */
};

static inline void put_tensor(struct maker *m, const struct spec *s)
{
    int i;

    maker_text(m, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(m, "storage");
    maker_text(m, "ctorch\n");
    maker_text(m, s->class);
    maker_text(m, "\n");
    put_text(m, s->key);
    put_text(m, "cpu");
    put_int(m, s->count);
    if (s->view)
        maker_text(m, s->view);
    maker_text(m, "tQ");
    put_int(m, s->offset);
    maker_text(m, "(");
    for (i = 0; i < s->rank; i++)
        put_int(m, s->size[i]);
    maker_text(m, "t(");
    for (i = 0; i < s->strides; i++)
        put_int(m, s->stride[i]);
    maker_text(m, "t\x89"
                  "ccollections\nOrderedDict\n)RtR");
}

/* {"w": tensor} */
static inline void put_dict(struct maker *m, const struct spec *s)
{
    maker_text(m, "\x80\2}");
    put_text(m, "w");
    put_tensor(m, s);
    maker_text(m, "s.");
}

static const float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static const struct spec honest = {"FloatStorage", "0",    12,  0, 2, 2,
                                   {3, 4},         {4, 1}, NULL};

/* An archive round one pickle; record is data/0. */
static inline void make_zip(struct zipmaker *z, const struct maker *pickle,
                            const void *record, size_t bytes)
{
    zipmaker_add(z, "net/data.pkl", pickle->data, pickle->bytes);
    zipmaker_add(z, "net/byteorder", "little", 6);
    zipmaker_add(z, "net/data/0", record, bytes);
    zipmaker_add(z, "net/version", "3\n", 2);
    zipmaker_add(z, "net/.data/serialization_id", "0123", 4);
    zipmaker_end(z);
}

#endif
