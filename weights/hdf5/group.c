/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5: the links of a group, in each of the three ways they are kept: symbol
 * tables (B-tree and local heap), link messages in the header, and dense links
 * (fractal heap indexed by a B-tree). */
#include <stdlib.h>
#include <string.h>

#include "weights/hdf5/internal.h"

typedef int link_fn(void *user, const struct hdf5_link *link,
                    struct infer_error *err);

static int check_name(const struct hdf5_link *link, uint64_t address,
                      struct infer_error *err)
{
    if (link->name_bytes == 0 ||
        memchr(link->name, 0, link->name_bytes) != NULL ||
        memchr(link->name, '/', link->name_bytes) != NULL)
        return hdf5_malformed(err, address,
                              "link with an empty name, or NUL or '/' in it");
    return 0;
}

/* ---- symbol tables ------------------------------------------------- */

struct symbols {
    struct hdf5_file *f;
    uint64_t heap;
    link_fn *fn;
    void *user;
};

/* Entry: name offset, object header, cache type (4), reserved (4), scratch
 * (16).  Cache type 2 is a soft link. */
static int symbol(struct symbols *s, const unsigned char *entry,
                  uint64_t address, struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(entry, 2 * s->f->offset_size + 4);
    struct hdf5_link link = {0};
    const uint64_t offset = hdf5_address(&c, s->f);

    link.address = hdf5_address(&c, s->f);
    link.kind = hdf5_uint(&c, 4) == 2 ? HDF5_SOFT_LINK : HDF5_HARD_LINK;
    int rc = hdf5_local_name(s->f, s->heap, offset, err, &link.name,
                             &link.name_bytes);
    if (rc == 0)
        rc = check_name(&link, address, err);
    return rc < 0 ? rc : s->fn(s->user, &link, err);
}

/* "SNOD", version, reserved, number of entries (2), entries. */
static int symbol_node(void *user, const unsigned char *key, uint64_t address,
                       struct infer_error *err)
{
    struct symbols *s = user;
    const size_t step = 2 * (size_t)s->f->offset_size + 24;
    const unsigned char *p;
    int rc = hdf5_block(s->f, address, 8, "symbol table node", err, &p);

    (void)key;
    if (rc < 0)
        return rc;
    const unsigned n = p[6] | (unsigned)p[7] << 8;
    if (memcmp(p, "SNOD", 4) != 0 || p[4] != 1)
        return hdf5_malformed(err, address, "no symbol table node here");
    if (n > 2 * s->f->group_leaf_k)
        return hdf5_malformed(err, address,
                              "symbol table node of %u entries; %u fit", n,
                              2 * s->f->group_leaf_k);
    rc = hdf5_block(s->f, address, 8 + n * step, "symbol table node", err, &p);
    for (unsigned i = 0; rc == 0 && i < n; i++)
        rc = symbol(s, p + 8 + i * step, address, err);
    return rc;
}

static int each_symbol(struct hdf5_file *f, const struct hdf5_message *m,
                       uint64_t address, link_fn *fn, void *user,
                       struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(m->data, m->bytes);
    const uint64_t tree = hdf5_address(&c, f);
    struct symbols s = {f, hdf5_address(&c, f), fn, user};

    if (c.bad)
        return hdf5_malformed(err, address, "symbol table message cut short");
    return hdf5_btree1_walk(f, tree, 0, f->length_size, 2 * f->group_k,
                            symbol_node, &s, err);
}

/* ---- link messages ------------------------------------------------- */

/* Version, flags, [kind], [creation order (8)], [character set], bytes of the
 * name in 1 << (flags & 3) bytes, name, target. */
static int parse_link(struct hdf5_file *f, uint64_t address,
                      const unsigned char *data, size_t bytes,
                      struct infer_error *err, struct hdf5_link *link)
{
    struct hdf5_cursor c = hdf5_cursor(data, bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const unsigned flags = (unsigned)hdf5_uint(&c, 1);
    const unsigned kind = flags & 8 ? (unsigned)hdf5_uint(&c, 1) : 0;

    if (flags & 4)
        hdf5_skip(&c, 8);
    if (flags & 16)
        hdf5_skip(&c, 1);
    const uint64_t n = hdf5_uint(&c, 1u << (flags & 3));
    if (c.bad || version != 1 || n > hdf5_left(&c))
        return hdf5_malformed(err, address,
                              "link message of version %u, name of %llu bytes",
                              version, (unsigned long long)n);
    *link = (struct hdf5_link){.name_bytes = (size_t)n};
    link->name = (const char *)hdf5_skip(&c, (size_t)n);
    link->address = HDF5_UNDEFINED;
    if (kind == 0) {
        link->kind = HDF5_HARD_LINK;
        link->address = hdf5_address(&c, f);
    } else if (kind == 1) {
        link->kind = HDF5_SOFT_LINK;
    } else {
        /* 64 is external; the rest of 65 .. 255 is user-defined. */
        link->kind = HDF5_EXTERNAL_LINK;
    }
    if (c.bad)
        return hdf5_malformed(err, address, "link message cut short");
    return check_name(link, address, err);
}

/* Record of a name index: hash of the name (4), heap ID. */
static const struct hdf5_dense dense = {
    .what = "link", .index_bytes = 8, .record_type = 5, .before_id = 4};

struct each {
    link_fn *fn;
    void *user;
};

static int dense_link(struct hdf5_file *f, uint64_t heap,
                      const unsigned char *data, size_t bytes, void *user,
                      struct infer_error *err)
{
    const struct each *each = user;
    struct hdf5_link link;
    int rc = parse_link(f, heap, data, bytes, err, &link);

    return rc < 0 ? rc : each->fn(each->user, &link, err);
}

static int each_message(struct hdf5_file *f, const struct hdf5_object *object,
                        link_fn *fn, void *user, struct infer_error *err)
{
    struct each each = {fn, user};
    int rc = 0;

    for (size_t i = 0; i < object->count && rc == 0; i++) {
        const struct hdf5_message *m = &object->message[i];
        struct hdf5_link link;
        switch (m->type) {
        case HDF5_MSG_SYMBOL_TABLE:
            rc = each_symbol(f, m, object->address, fn, user, err);
            break;
        case HDF5_MSG_LINK_INFO:
            rc = hdf5_dense_each(f, m, object->address, &dense, dense_link,
                                 &each, err);
            break;
        case HDF5_MSG_LINK:
            rc = parse_link(f, object->address, m->data, m->bytes, err, &link);
            if (rc == 0)
                rc = fn(user, &link, err);
            break;
        default:
            break;
        }
    }
    return rc;
}

static int each_link(struct hdf5_file *f, uint64_t group, link_fn *fn,
                     void *user, struct infer_error *err)
{
    struct hdf5_object object;
    int rc = hdf5_object_read(f, group, err, &object);

    if (rc < 0)
        return rc;
    rc = each_message(f, &object, fn, user, err);
    hdf5_object_clear(f, &object);
    return rc;
}

/* ---- sorted lists -------------------------------------------------- */

struct collect {
    struct hdf5_file *f;
    struct hdf5_links *out;
};

static int collect_link(void *user, const struct hdf5_link *link,
                        struct infer_error *err)
{
    struct collect *c = user;
    struct hdf5_links *o = c->out;
    const int rc = hdf5_grow(c->f, (void **)&o->link, o->count, &o->capacity,
                             sizeof *o->link, err);

    if (rc == 0)
        o->link[o->count++] = *link;
    return rc;
}

static int compare_names(const char *a, size_t a_bytes, const char *b,
                         size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);

    if (order != 0)
        return order;
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_links(const void *a, const void *b)
{
    const struct hdf5_link *x = a, *y = b;

    return compare_names(x->name, x->name_bytes, y->name, y->name_bytes);
}

int hdf5_links_read(struct hdf5_file *f, uint64_t group,
                    struct infer_error *err, struct hdf5_links *out)
{
    struct collect c = {f, out};

    memset(out, 0, sizeof *out);
    int rc = each_link(f, group, collect_link, &c, err);
    if (rc == 0 && out->count > 1)
        qsort(out->link, out->count, sizeof *out->link, compare_links);
    for (size_t i = 1; rc == 0 && i < out->count; i++) {
        const struct hdf5_link *l = &out->link[i];
        if (compare_links(l - 1, l) == 0)
            rc = hdf5_malformed(err, group, "two links are named '%.*s'",
                                (int)(l->name_bytes & 0xff), l->name);
    }
    if (rc < 0)
        hdf5_links_clear(f, out);
    return rc;
}

void hdf5_links_clear(struct hdf5_file *f, struct hdf5_links *links)
{
    hdf5_release(f, links->link, links->capacity * sizeof *links->link);
    memset(links, 0, sizeof *links);
}

const struct hdf5_link *hdf5_links_find(const struct hdf5_links *links,
                                        const char *name, size_t name_bytes)
{
    const struct hdf5_link key = {.name = name, .name_bytes = name_bytes};

    return links->count ? bsearch(&key, links->link, links->count,
                                  sizeof *links->link, compare_links)
                        : NULL;
}

/* ---- paths --------------------------------------------------------- */

struct search {
    const char *name;
    size_t name_bytes;
    struct hdf5_link found;
};

static int match_link(void *user, const struct hdf5_link *link,
                      struct infer_error *err)
{
    struct search *s = user;

    (void)err;
    if (compare_names(s->name, s->name_bytes, link->name, link->name_bytes))
        return 0;
    s->found = *link;
    return 1;
}

int hdf5_find(struct hdf5_file *f, uint64_t group, const char *path,
              struct infer_error *err, uint64_t *address)
{
    uint64_t at = group;

    while (*path != '\0') {
        struct search s = {.name = path, .name_bytes = strcspn(path, "/")};
        path += s.name_bytes;
        path += *path == '/';
        if (s.name_bytes == 0 ||
            (s.name[0] == '.' &&
             (s.name_bytes == 1 || (s.name_bytes == 2 && s.name[1] == '.'))))
            return hdf5_malformed(err, group,
                                  "path with an empty name, '.' or '..'");
        const int rc = each_link(f, at, match_link, &s, err);
        if (rc <= 0)
            return rc;
        if (s.found.kind != HDF5_HARD_LINK)
            return hdf5_unsupported(
                err, at, "'%.*s' is %s link; links are not followed",
                (int)(s.name_bytes & 0xff), s.name,
                s.found.kind == HDF5_SOFT_LINK ? "a soft" : "an external");
        at = s.found.address;
    }
    *address = at;
    return 1;
}
