/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncnn's NAME.bin: weights, one after another, in the order of the layers.
 * Tagged ones begin with 4 bytes that say how they are stored:
 *
 *     01306B47   half precision, padded to 4 bytes
 *     0002C056   single precision
 *     0          single precision
 *     000D4B38   8-bit integers (not supported)
 *     other      256 floats, and a byte a weight, padded to 4 bytes: indices
 */
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

#define TAG_HALF   UINT32_C(0x01306B47)
#define TAG_SINGLE UINT32_C(0x0002C056)
#define TAG_INT8   UINT32_C(0x000D4B38)

/* The next elements of `size` bytes, padded to 4; NULL after a failure. */
static unsigned char *take(struct ncnn *n, const char *suffix, int64_t count,
                           size_t size)
{
    const size_t left = bytes_left(&n->cursor);
    const unsigned char *data = NULL;
    size_t bytes;

    if (checked_mul((size_t)count, size, &bytes) && bytes <= SIZE_MAX - 3)
        data = bytes_take(&n->cursor, (bytes + 3) / 4 * 4);
    if (data == NULL) {
        layers_fail(&n->b, INFER_EFORMAT,
                    "its %s needs %lld elements of %zu bytes, the weights "
                    "have %zu bytes left",
                    suffix, (long long)count, size, left);
        return NULL;
    }
    return n->weights->data + (data - n->cursor.data);
}

static struct constant *read_half(struct ncnn *n, const char *suffix,
                                  int64_t count, int rank, const int64_t *dim)
{
    const unsigned char *data = take(n, suffix, count, 2);
    struct constant *half, *single = NULL;

    if (data == NULL)
        return NULL;
    half = constant_new(INFER_F16, rank, dim);
    if (half != NULL) {
        memcpy(half->data, data, half->bytes);
        single = constant_convert(half, INFER_F32);
    }
    constant_unref(half);
    return single;
}

static struct constant *read_table(struct ncnn *n, const char *suffix,
                                   int64_t count, int rank, const int64_t *dim)
{
    const unsigned char *table = take(n, suffix, 256, sizeof(float));
    const unsigned char *index =
        table != NULL ? take(n, suffix, count, 1) : NULL;
    struct constant *c;
    int64_t i;

    if (index == NULL)
        return NULL;
    c = constant_new(INFER_F32, rank, dim);
    for (i = 0; c != NULL && i < count; i++)
        memcpy(c->data + (size_t)i * sizeof(float),
               table + index[i] * sizeof(float), sizeof(float));
    return c;
}

static struct constant *read_single(struct ncnn *n, const char *suffix,
                                    int64_t count, int rank, const int64_t *dim)
{
    unsigned char *data = take(n, suffix, count, sizeof(float));

    return data != NULL ? layers_floats(n->weights, data, rank, dim) : NULL;
}

struct constant *ncnn_data(struct ncnn *n, const char *suffix, bool tagged,
                           int rank, const int64_t *dim)
{
    struct constant *c = NULL;
    uint32_t tag = 0;
    int64_t count;

    if (n->b.status < 0 || n->weights == NULL)
        return NULL;
    if (!checked_count(rank, dim, &count) || count > INT64_C(1) << 48) {
        layers_fail(&n->b, INFER_EFORMAT, "its %s is beyond all memory",
                    suffix);
        return NULL;
    }
    if (tagged && !bytes_u32(&n->cursor, &tag))
        layers_fail(&n->b, INFER_EFORMAT, "the weights end before its %s",
                    suffix);
    else if (tag == TAG_INT8)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "its %s is stored as 8-bit integers", suffix);
    else if (tag == TAG_HALF)
        c = read_half(n, suffix, count, rank, dim);
    else if (tag == 0 || tag == TAG_SINGLE)
        c = read_single(n, suffix, count, rank, dim);
    else
        c = read_table(n, suffix, count, rank, dim);
    if (c == NULL)
        layers_no_room(&n->b); /* unless it has failed already */
    return c;
}

int ncnn_weight(struct ncnn *n, const char *suffix, bool tagged, int rank,
                const int64_t *dim)
{
    struct constant *data;

    if (n->weights == NULL)
        return layers_unbound(&n->b, suffix, rank, dim);
    data = ncnn_data(n, suffix, tagged, rank, dim);
    return n->b.status < 0 ? n->b.status : layers_constant(&n->b, suffix, data);
}
