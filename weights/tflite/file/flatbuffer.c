/* SPDX-License-Identifier: Apache-2.0 */
/* FlatBuffers: tables, fields and vectors; see flatbuffer.h. */
#include "weights/tflite/file/flatbuffer.h"

#include <string.h>

#include "kernels/base/checked.h"
#include "weights/bytes.h"

void fb_open(struct fb *file, const void *data, size_t bytes)
{
    *file = (struct fb){data, bytes, false, 0};
}

static void damage(struct fb *file, size_t at)
{
    if (file->damaged)
        return;
    file->damaged = true;
    file->damaged_at = at;
}

/* Whether n bytes lie at `at`; otherwise the file is damaged. */
static bool inside(struct fb *file, size_t at, size_t n)
{
    if (checked_range(at, n, file->bytes))
        return true;
    damage(file, at < file->bytes ? at : file->bytes);
    return false;
}

static struct fb_table absent(struct fb *file)
{
    return (struct fb_table){file, 0, 0, 0};
}

/* The table at a place: a signed distance back to its vtable, which starts
 * with its own length. */
static struct fb_table table_at(struct fb *file, size_t at)
{
    struct fb_table t = {file, at, 0, 0};
    int64_t vtable;

    if (!inside(file, at, 4))
        return absent(file);
    vtable = (int64_t)at - (int32_t)bytes_le32(file->data + at);
    if (vtable < 0 || !checked_range((size_t)vtable, 4, file->bytes)) {
        damage(file, at);
        return absent(file);
    }
    t.vtable = (size_t)vtable;
    t.vtable_bytes = bytes_le16(file->data + t.vtable);
    if (t.vtable_bytes < 4 ||
        !checked_range(t.vtable, t.vtable_bytes, file->bytes)) {
        damage(file, t.vtable);
        return absent(file);
    }
    return t;
}

/* Follows the offset that lies at a place. */
static bool follow(struct fb *file, size_t at, size_t *out)
{
    uint32_t offset;

    if (!inside(file, at, 4))
        return false;
    offset = bytes_le32(file->data + at);
    if (offset == 0 || !checked_range(offset, 4, file->bytes - at)) {
        damage(file, at);
        return false;
    }
    *out = at + offset;
    return true;
}

struct fb_table fb_root(struct fb *file)
{
    size_t at;

    return follow(file, 0, &at) ? table_at(file, at) : absent(file);
}

/* Where field number id of n bytes lies; false where it is absent. */
static bool field(const struct fb_table *t, int id, size_t n, size_t *out)
{
    const size_t slot = 4 + 2 * (size_t)id;
    unsigned offset;

    if (slot + 2 > t->vtable_bytes)
        return false;
    offset = bytes_le16(t->file->data + t->vtable + slot);
    if (offset == 0)
        return false;
    *out = t->at + offset;
    return inside(t->file, *out, n);
}

bool fb_has(const struct fb_table *t, int id)
{
    size_t at;

    return field(t, id, 1, &at);
}

uint8_t fb_u8(const struct fb_table *t, int id, uint8_t otherwise)
{
    size_t at;

    return field(t, id, 1, &at) ? t->file->data[at] : otherwise;
}

bool fb_bool(const struct fb_table *t, int id)
{
    return fb_u8(t, id, 0) != 0;
}

uint32_t fb_u32(const struct fb_table *t, int id, uint32_t otherwise)
{
    size_t at;

    return field(t, id, 4, &at) ? bytes_le32(t->file->data + at) : otherwise;
}

int32_t fb_i32(const struct fb_table *t, int id, int32_t otherwise)
{
    return (int32_t)fb_u32(t, id, (uint32_t)otherwise);
}

uint64_t fb_u64(const struct fb_table *t, int id, uint64_t otherwise)
{
    size_t at;

    return field(t, id, 8, &at) ? bytes_le64(t->file->data + at) : otherwise;
}

static float float_at(const unsigned char *p)
{
    const uint32_t bits = bytes_le32(p);
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

float fb_f32(const struct fb_table *t, int id, float otherwise)
{
    size_t at;

    return field(t, id, 4, &at) ? float_at(t->file->data + at) : otherwise;
}

struct fb_table fb_sub(const struct fb_table *t, int id)
{
    size_t at;

    if (!field(t, id, 4, &at) || !follow(t->file, at, &at))
        return absent(t->file);
    return table_at(t->file, at);
}

struct fb_vector fb_list(const struct fb_table *t, int id, size_t size)
{
    struct fb_vector v = {t->file, 0, 0, false};
    size_t at, bytes;
    uint32_t count;

    if (!field(t, id, 4, &at) || !follow(t->file, at, &at))
        return v;
    count = bytes_le32(t->file->data + at);
    if (!checked_mul(count, size, &bytes) || !inside(t->file, at + 4, bytes))
        return v;
    v.at = at + 4;
    v.count = count;
    v.present = true;
    return v;
}

int32_t fb_list_i32(const struct fb_vector *v, size_t i)
{
    return (int32_t)bytes_le32(v->file->data + v->at + 4 * i);
}

int64_t fb_list_i64(const struct fb_vector *v, size_t i)
{
    return (int64_t)bytes_le64(v->file->data + v->at + 8 * i);
}

float fb_list_f32(const struct fb_vector *v, size_t i)
{
    return float_at(v->file->data + v->at + 4 * i);
}

struct fb_table fb_list_table(const struct fb_vector *v, size_t i)
{
    size_t at;

    if (!follow(v->file, v->at + 4 * i, &at))
        return absent(v->file);
    return table_at(v->file, at);
}

const unsigned char *fb_list_data(const struct fb_vector *v)
{
    return v->file->data + v->at;
}
