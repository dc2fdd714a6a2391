/* SPDX-License-Identifier: Apache-2.0 */
/* "Dense" storage: what an object has too many of for messages (links of a
 * group, attributes) lies in a fractal heap, found through a B-tree by name. */
#include "weights/hdf5/internal.h"

struct walk {
    struct hdf5_file *f;
    struct hdf5_heap heap;
    const struct hdf5_dense *kind;
    hdf5_dense_fn *fn;
    void *user;
};

static int visit(void *user, const unsigned char *record, size_t bytes,
                 struct infer_error *err)
{
    struct walk *w = user;
    const size_t id = w->kind->before_id, end = id + w->heap.id_bytes;
    const unsigned char *data;
    size_t n;

    if (bytes < end + w->kind->after_id)
        return hdf5_malformed(err, w->heap.address,
                              "record of a dense %s cut short", w->kind->what);
    if (w->kind->has_flags && record[end] & HDF5_MSG_FLAG_SHARED)
        return hdf5_unsupported(err, w->heap.address,
                                "%s kept in the shared message table",
                                w->kind->what);
    int rc = hdf5_heap_object(w->f, &w->heap, record + id, err, &data, &n);
    return rc < 0 ? rc : w->fn(w->f, w->heap.address, data, n, w->user, err);
}

/* Version, flags, [highest creation index], fractal heap, name index. */
int hdf5_dense_each(struct hdf5_file *f, const struct hdf5_message *m,
                    uint64_t address, const struct hdf5_dense *kind,
                    hdf5_dense_fn *fn, void *user, struct infer_error *err)
{
    struct hdf5_cursor c = hdf5_cursor(m->data, m->bytes);
    const unsigned version = (unsigned)hdf5_uint(&c, 1);
    const unsigned flags = (unsigned)hdf5_uint(&c, 1);

    if (flags & 1)
        hdf5_skip(&c, kind->index_bytes);
    const uint64_t heap = hdf5_address(&c, f);
    const uint64_t tree = hdf5_address(&c, f);
    if (c.bad || version != 0)
        return hdf5_malformed(err, address, "%s info of version %u", kind->what,
                              version);
    if (heap == HDF5_UNDEFINED)
        return 0; /* they are in messages */
    void *memory;
    int rc = hdf5_alloc(f, sizeof(struct walk), err, &memory);
    if (rc < 0)
        return rc;
    struct walk *w = memory;
    w->f = f;
    w->kind = kind;
    w->fn = fn;
    w->user = user;
    rc = hdf5_heap_open(f, heap, err, &w->heap);
    if (rc == 0)
        rc = hdf5_btree2_walk(f, tree, kind->record_type, visit, w, err);
    hdf5_release(f, w, sizeof *w);
    return rc;
}
