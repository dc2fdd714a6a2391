/* SPDX-License-Identifier: Apache-2.0 */
/* What the callables on the list would have built.  Every argument is checked
 * for number and kind; nothing is called. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/numpy/numpy.h"
#include "weights/pytorch/pickle_machine.h"
#include "weights/pytorch/pickle_text.h"

/* Arguments of a call. */
struct args {
    const uint32_t *item;
    uint32_t count;
};

static const struct pickle_node *arg(const struct pickle *p,
                                     const struct args *a, uint32_t i)
{
    return pickle_at(p, a->item[i]);
}

static bool is_kind(const struct pickle *p, const struct args *a, uint32_t i,
                    enum pickle_kind kind)
{
    return i < a->count && arg(p, a, i)->kind == kind;
}

static bool is_text(const struct pickle *p, const struct args *a, uint32_t i)
{
    return is_kind(p, a, i, PICKLE_STR) || is_kind(p, a, i, PICKLE_BYTES);
}

static bool is_sequence(const struct pickle *p, const struct args *a,
                        uint32_t i)
{
    return is_kind(p, a, i, PICKLE_TUPLE) || is_kind(p, a, i, PICKLE_LIST) ||
           is_kind(p, a, i, PICKLE_SET);
}

static int wrong_args(const char *of, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "%s with arguments it cannot have",
                     of);
}

static int make(struct pickle *p, enum pickle_kind kind, uint32_t *out)
{
    return pickle_new(p, kind, out) ? 0 : INFER_EMEMORY;
}

static int make_bytes(struct pickle *p, const unsigned char *bytes,
                      uint32_t count, uint32_t *out)
{
    int rc = make(p, PICKLE_BYTES, out);

    if (rc == 0) {
        p->node[*out].u.bytes = bytes;
        p->node[*out].count = count;
    }
    return rc;
}

/* ---- containers ---------------------------------------------------- */

/* A new container of this kind with the items of another node. */
static int copy_items(struct pickle *p, enum pickle_kind kind, uint32_t from,
                      uint32_t *out)
{
    uint32_t i;

    if (!pickle_new(p, kind, out))
        return INFER_EMEMORY;
    for (i = 0; i < p->node[from].count; i++)
        if (!pickle_append(p, *out, p->node[from].u.item[i]))
            return INFER_EMEMORY;
    return 0;
}

/* Pairs of a sequence, as OrderedDict([[key, value], ...]) takes them. */
static int copy_pairs(struct pickle *p, uint32_t from, struct infer_error *err,
                      uint32_t *out)
{
    uint32_t i;

    if (!pickle_new(p, PICKLE_DICT, out))
        return INFER_EMEMORY;
    for (i = 0; i < p->node[from].count; i++) {
        const struct pickle_node *pair = pickle_at(p, p->node[from].u.item[i]);

        if ((pair->kind != PICKLE_TUPLE && pair->kind != PICKLE_LIST) ||
            pair->count != 2)
            return wrong_args("a dictionary", err);
        const uint32_t key = pair->u.item[0], value = pair->u.item[1];
        if (!pickle_append(p, *out, key) || !pickle_append(p, *out, value))
            return INFER_EMEMORY;
    }
    return 0;
}

/* OrderedDict(), OrderedDict(pairs), Counter(dict), defaultdict(factory). */
static int call_dict(struct pickle *p, struct args a, struct infer_error *err,
                     uint32_t *out)
{
    if (is_kind(p, &a, 0, PICKLE_GLOBAL) || is_kind(p, &a, 0, PICKLE_NONE)) {
        a.item++;
        a.count--;
    }
    if (a.count == 0)
        return make(p, PICKLE_DICT, out);
    if (a.count == 1 && is_kind(p, &a, 0, PICKLE_DICT))
        return copy_items(p, PICKLE_DICT, a.item[0], out);
    if (a.count == 1 && is_sequence(p, &a, 0))
        return copy_pairs(p, a.item[0], err, out);
    return wrong_args("a dictionary", err);
}

static int call_sequence(struct pickle *p, const struct args *a,
                         enum pickle_kind kind, struct infer_error *err,
                         uint32_t *out)
{
    if (a->count == 0)
        return make(p, kind, out);
    if (a->count != 1 || !is_sequence(p, a, 0))
        return wrong_args("a sequence", err);
    return copy_items(p, kind, a->item[0], out);
}

static int call_tuple(struct pickle *p, const struct args *a,
                      struct infer_error *err, uint32_t *out)
{
    if (a->count == 0)
        return make(p, PICKLE_TUPLE, out);
    if (a->count != 1 || !is_sequence(p, a, 0))
        return wrong_args("a tuple", err);
    if (!pickle_new(p, PICKLE_TUPLE, out) ||
        !pickle_set_items(p, *out, arg(p, a, 0)->u.item, arg(p, a, 0)->count))
        return INFER_EMEMORY;
    return 0;
}

/* ---- bytes --------------------------------------------------------- */

/* latin-1: one byte for each code point, none above 255. */
static int encode_latin1(struct pickle *p, const struct pickle_node *text,
                         struct infer_error *err, uint32_t *out)
{
    const unsigned char *in = text->u.bytes;
    uint32_t count = text->count, i = 0, n = 0;
    unsigned char *bytes = pickle_alloc(p, (size_t)count + 1);

    if (!bytes)
        return INFER_EMEMORY;
    while (i < count) {
        if (in[i] < 0x80) {
            bytes[n++] = in[i++];
        } else if (in[i] <= 0xc3) { /* two-byte form, up to U+00FF */
            bytes[n++] = (unsigned char)(in[i] << 6 | (in[i + 1] & 0x3f));
            i += 2;
        } else {
            return wrong_args("_codecs.encode", err);
        }
    }
    return make_bytes(p, bytes, n, out);
}

static bool is_latin1(const struct pickle_node *codec)
{
    return pickle_is(codec, "latin1") || pickle_is(codec, "latin-1");
}

static int call_encode(struct pickle *p, const struct args *a,
                       struct infer_error *err, uint32_t *out)
{
    if (a->count != 2 || !is_kind(p, a, 0, PICKLE_STR) ||
        !is_kind(p, a, 1, PICKLE_STR))
        return wrong_args("_codecs.encode", err);
    if (!is_latin1(arg(p, a, 1)))
        return error_set(
            err, INFER_EUNSUPPORTED,
            "_codecs.encode to '%.*s' (supported: latin1)",
            (int)(arg(p, a, 1)->count < 64 ? arg(p, a, 1)->count : 64),
            (const char *)arg(p, a, 1)->u.bytes);
    return encode_latin1(p, arg(p, a, 0), err, out);
}

static int call_bytes(struct pickle *p, const struct args *a,
                      struct infer_error *err, uint32_t *out)
{
    if (a->count == 0)
        return make_bytes(p, NULL, 0, out);
    if (a->count == 1 && is_kind(p, a, 0, PICKLE_BYTES)) {
        *out = a->item[0];
        return 0;
    }
    if (a->count == 2)
        return call_encode(p, a, err, out);
    return wrong_args("bytes", err);
}

/* ---- tensors ------------------------------------------------------- */

/* A tuple of integers >= 0. */
static bool is_shape(const struct pickle *p, const struct pickle_node *tuple)
{
    uint32_t i;

    if (tuple->kind != PICKLE_TUPLE)
        return false;
    for (i = 0; i < tuple->count; i++) {
        const struct pickle_node *n = pickle_at(p, tuple->u.item[i]);

        if (n->kind != PICKLE_INT || n->u.integer < 0)
            return false;
    }
    return true;
}

/* (storage, offset, size, stride[, requires_grad, hooks[, metadata]]) */
static int call_tensor(struct pickle *p, const struct args *a, bool typed,
                       struct infer_error *err, uint32_t *out)
{
    const struct pickle_node *size, *stride;

    if (a->count < (typed ? 7u : 4u) || a->count > (typed ? 8u : 7u) ||
        !is_kind(p, a, 0, PICKLE_STORAGE) || !is_kind(p, a, 1, PICKLE_INT) ||
        arg(p, a, 1)->u.integer < 0 || !is_shape(p, arg(p, a, 2)) ||
        !is_shape(p, arg(p, a, 3)))
        return wrong_args("a tensor", err);
    size = arg(p, a, 2);
    stride = arg(p, a, 3);
    if (size->count != stride->count)
        return error_set(err, INFER_EFORMAT,
                         "a tensor with %u sizes and %u strides", size->count,
                         stride->count);
    if (size->count > INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a tensor of rank %u (supported: 0 to %d)",
                         size->count, INFER_MAX_RANK);
    if (typed && (!is_kind(p, a, 6, PICKLE_GLOBAL) ||
                  pickle_row_at(arg(p, a, 6)->row)->call != CALL_DTYPE))
        return wrong_args("a tensor", err);
    if (!pickle_new(p, PICKLE_TENSOR, out) ||
        !pickle_set_items(p, *out, a->item, PICKLE_TENSOR_ITEMS))
        return INFER_EMEMORY;
    if (typed) {
        p->node[*out].row = arg(p, a, 6)->row;
        p->node[*out].dtype = arg(p, a, 6)->dtype;
    }
    return 0;
}

/* (tensor, requires_grad, hooks[, state]): the tensor itself. */
static int call_parameter(const struct pickle *p, const struct args *a,
                          struct infer_error *err, uint32_t *out)
{
    if (a->count < 3 || a->count > 4 || !is_kind(p, a, 0, PICKLE_TENSOR))
        return wrong_args("a parameter", err);
    *out = a->item[0];
    return 0;
}

/* (function, class, arguments, state) for tensors with attributes of their
 * own; only plain tensors and parameters. */
static int call_from_type(struct pickle *p, const struct args *a,
                          struct infer_error *err, uint32_t *out)
{
    enum pickle_call inner;

    if (a->count != 4 || !is_kind(p, a, 0, PICKLE_GLOBAL) ||
        !is_kind(p, a, 1, PICKLE_GLOBAL) || !is_kind(p, a, 2, PICKLE_TUPLE))
        return wrong_args("a tensor", err);
    inner = pickle_row_at(arg(p, a, 0)->row)->call;
    if (inner != CALL_TENSOR && inner != CALL_TENSOR_TYPED &&
        inner != CALL_PARAMETER)
        return wrong_args("a tensor", err);
    return pickle_reduce(p, a->item[0], a->item[2], err, out);
}

/* ('module', class, file, source): old containers keep a class together with
 * its source text. */
static bool is_class_with_source(const struct pickle *p, uint32_t id)
{
    struct args a = {p->node[id].u.item, p->node[id].count};

    return p->node[id].kind == PICKLE_TUPLE && a.count == 4 &&
           is_kind(p, &a, 0, PICKLE_STR) &&
           pickle_is(arg(p, &a, 0), "module") &&
           is_kind(p, &a, 1, PICKLE_CLASS);
}

/* ('storage', class, key, location, count[, view]) */
int pickle_persistent(struct pickle *p, uint32_t id, struct infer_error *err,
                      uint32_t *out)
{
    struct args a = {p->node[id].u.item, p->node[id].count};
    uint32_t items[PICKLE_STORAGE_ITEMS];
    const struct pickle_node *class;

    if (is_class_with_source(p, id)) {
        *out = a.item[1];
        return 0;
    }
    if (p->node[id].kind != PICKLE_TUPLE || a.count < 5 || a.count > 6 ||
        !is_kind(p, &a, 0, PICKLE_STR) || !pickle_is(arg(p, &a, 0), "storage"))
        return wrong_args("a reference to data outside the pickle", err);
    class = arg(p, &a, 1);
    if (class->kind != PICKLE_GLOBAL ||
        pickle_row_at(class->row)->call != CALL_STORAGE ||
        !is_kind(p, &a, 2, PICKLE_STR) || !is_kind(p, &a, 3, PICKLE_STR) ||
        !is_kind(p, &a, 4, PICKLE_INT) || arg(p, &a, 4)->u.integer < 0)
        return wrong_args("a storage", err);
    if (a.count == 6 && !is_kind(p, &a, 5, PICKLE_NONE)) {
        const struct pickle_node *view = arg(p, &a, 5);
        struct args v = {view->u.item, view->count};

        if (view->kind != PICKLE_TUPLE || v.count != 3 ||
            !is_kind(p, &v, 0, PICKLE_STR) || !is_kind(p, &v, 1, PICKLE_INT) ||
            !is_kind(p, &v, 2, PICKLE_INT) || arg(p, &v, 1)->u.integer < 0 ||
            arg(p, &v, 2)->u.integer < 0)
            return wrong_args("a view of a storage", err);
    }
    items[PICKLE_STORAGE_KEY] = a.item[2];
    items[PICKLE_STORAGE_COUNT] = a.item[4];
    items[PICKLE_STORAGE_VIEW] = a.count == 6 ? a.item[5] : 0;
    const uint32_t row = class->row;
    const uint8_t dtype = class->dtype;
    if (!pickle_new(p, PICKLE_STORAGE, out) ||
        !pickle_set_items(p, *out, items, PICKLE_STORAGE_ITEMS))
        return INFER_EMEMORY;
    p->node[*out].row = row;
    p->node[*out].dtype = dtype;
    return 0;
}

/* ---- numpy --------------------------------------------------------- */

/* dtype(text, align, copy); unknown types stay INFER_NONE. */
static int call_numpy_dtype(struct pickle *p, const struct args *a,
                            struct infer_error *err, uint32_t *out)
{
    enum infer_dtype dtype = INFER_NONE;
    bool swapped = false;

    if (!is_text(p, a, 0))
        return wrong_args("numpy.dtype", err);
    numpy_dtype(arg(p, a, 0)->u.bytes, arg(p, a, 0)->count, &dtype, &swapped);
    if (!pickle_new(p, PICKLE_NUMPY_DTYPE, out))
        return INFER_EMEMORY;
    p->node[*out].dtype = (uint8_t)dtype;
    p->node[*out].swapped = swapped;
    return 0;
}

/* Scalars are metrics and counters: their values are of no use here. */
static int call_numpy_scalar(struct pickle *p, const struct args *a,
                             struct infer_error *err, uint32_t *out)
{
    if (a->count > 2 || !is_kind(p, a, 0, PICKLE_NUMPY_DTYPE))
        return wrong_args("a numpy scalar", err);
    return make(p, PICKLE_OPAQUE, out);
}

/* _reconstruct(ndarray, (0,), b'b'): BUILD brings the content. */
static int call_numpy_array(struct pickle *p, const struct args *a,
                            struct infer_error *err, uint32_t *out)
{
    if (a->count != 3 || !is_kind(p, a, 0, PICKLE_GLOBAL) ||
        pickle_row_at(arg(p, a, 0)->row)->call != CALL_NUMPY_CLASS)
        return wrong_args("a numpy array", err);
    return make(p, PICKLE_ARRAY, out);
}

/* _frombuffer(bytes, dtype, shape, order) */
static int call_numpy_buffer(struct pickle *p, const struct args *a,
                             struct infer_error *err, uint32_t *out)
{
    uint32_t items[PICKLE_ARRAY_ITEMS];

    if (a->count != 4 || !is_text(p, a, 0) ||
        !is_kind(p, a, 1, PICKLE_NUMPY_DTYPE) || !is_shape(p, arg(p, a, 2)) ||
        (!pickle_is(arg(p, a, 3), "C") && !pickle_is(arg(p, a, 3), "F")))
        return wrong_args("a numpy array", err);
    items[PICKLE_ARRAY_DATA] = a->item[0];
    items[PICKLE_ARRAY_DTYPE] = a->item[1];
    items[PICKLE_ARRAY_SHAPE] = a->item[2];
    if (!pickle_new(p, PICKLE_BOOL, &items[PICKLE_ARRAY_FORTRAN]))
        return INFER_EMEMORY;
    p->node[items[PICKLE_ARRAY_FORTRAN]].u.integer =
        pickle_is(arg(p, a, 3), "F");
    if (!pickle_new(p, PICKLE_ARRAY, out) ||
        !pickle_set_items(p, *out, items, PICKLE_ARRAY_ITEMS))
        return INFER_EMEMORY;
    return 0;
}

/* (version, byte order, subarray, names, fields, size, alignment, ...) */
static int build_numpy_dtype(struct pickle *p, uint32_t object,
                             const struct args *a, struct infer_error *err)
{
    struct pickle_node *dtype = &p->node[object];
    uint32_t i;

    if (a->count < 5 || !is_text(p, a, 1))
        return wrong_args("the state of a numpy.dtype", err);
    for (i = 2; i < 5; i++)
        if (!is_kind(p, a, i, PICKLE_NONE))
            dtype->dtype = INFER_NONE; /* subarray or record */
    if (arg(p, a, 1)->count == 1 && arg(p, a, 1)->u.bytes[0] == '>')
        dtype->swapped = infer_dtype_size(dtype->dtype) > 1;
    return 0;
}

/* (version, shape, dtype, is Fortran, bytes): arrays of objects have a list
 * for bytes, and stay without content. */
static int build_numpy_array(struct pickle *p, uint32_t object,
                             const struct args *a, struct infer_error *err)
{
    uint32_t items[PICKLE_ARRAY_ITEMS];

    if (p->node[object].count > 0 || a->count != 5 ||
        !is_kind(p, a, 0, PICKLE_INT) || !is_shape(p, arg(p, a, 1)) ||
        !is_kind(p, a, 2, PICKLE_NUMPY_DTYPE))
        return wrong_args("the state of a numpy array", err);
    if (is_kind(p, a, 4, PICKLE_LIST))
        return 0;
    if (!is_text(p, a, 4) ||
        (!is_kind(p, a, 3, PICKLE_BOOL) && !is_kind(p, a, 3, PICKLE_INT)))
        return wrong_args("the state of a numpy array", err);
    items[PICKLE_ARRAY_SHAPE] = a->item[1];
    items[PICKLE_ARRAY_DTYPE] = a->item[2];
    items[PICKLE_ARRAY_FORTRAN] = a->item[3];
    items[PICKLE_ARRAY_DATA] = a->item[4];
    return pickle_set_items(p, object, items, PICKLE_ARRAY_ITEMS)
               ? 0
               : INFER_EMEMORY;
}

/* ---- REDUCE, NEWOBJ, BUILD ----------------------------------------- */

/* An object of a network's class: its attributes follow by BUILD. */
static int make_object(struct pickle *p, uint32_t class, uint32_t *out)
{
    if (!pickle_new(p, PICKLE_OBJECT, out) ||
        !pickle_set_items(p, *out, &class, 1))
        return INFER_EMEMORY;
    return 0;
}

/* What libraries of networks make of their own, such as enumerators, holds no
 * tensor. */
static bool is_library(const struct pickle_node *class)
{
    const char *const libraries[] = {"torch.nn.", "torchvision.", "timm."};
    size_t i, n;

    for (i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        n = strlen(libraries[i]);
        if (class->count > n && memcmp(class->u.bytes, libraries[i], n) == 0)
            return true;
    }
    return false;
}

static int refuse_class(const struct pickle_node *class, const char *what,
                        struct infer_error *err)
{
    return error_set(err, INFER_EUNSUPPORTED,
                     "it would call %.*s%s, which no weights need",
                     (int)(class->count < 200 ? class->count : 200),
                     (const char *)class->u.bytes, what);
}

/* copyreg._reconstructor(class, object, None) */
static int call_reconstruct(struct pickle *p, const struct args *a,
                            struct infer_error *err, uint32_t *out)
{
    if (a->count == 3 && is_kind(p, a, 0, PICKLE_CLASS))
        return make_object(p, a->item[0], out);
    if (a->count != 3 || !is_kind(p, a, 0, PICKLE_GLOBAL) ||
        pickle_row_at(arg(p, a, 0)->row)->call != CALL_OPAQUE)
        return wrong_args("copyreg._reconstructor", err);
    return make(p, PICKLE_OPAQUE, out);
}

static int call_row(struct pickle *p, uint32_t row, const struct args *a,
                    struct infer_error *err, uint32_t *out)
{
    char name[128];

    switch (pickle_row_at(row)->call) {
    case CALL_OPAQUE:
        return make(p, PICKLE_OPAQUE, out);
    case CALL_DICT:
        return call_dict(p, *a, err, out);
    case CALL_SET:
        return call_sequence(p, a, PICKLE_SET, err, out);
    case CALL_LIST:
        return call_sequence(p, a, PICKLE_LIST, err, out);
    case CALL_TUPLE:
        return call_tuple(p, a, err, out);
    case CALL_BYTES:
        return call_bytes(p, a, err, out);
    case CALL_ENCODE:
        return call_encode(p, a, err, out);
    case CALL_RECONSTRUCT:
        return call_reconstruct(p, a, err, out);
    case CALL_TENSOR:
        return call_tensor(p, a, false, err, out);
    case CALL_TENSOR_TYPED:
        return call_tensor(p, a, true, err, out);
    case CALL_PARAMETER:
        return call_parameter(p, a, err, out);
    case CALL_FROM_TYPE:
        return call_from_type(p, a, err, out);
    case CALL_TAGGED:
        if (a->count != 2)
            return wrong_args("torch.jit._pickle.restore_type_tag", err);
        *out = a->item[0];
        return 0;
    case CALL_NUMPY_DTYPE:
        return call_numpy_dtype(p, a, err, out);
    case CALL_NUMPY_SCALAR:
        return call_numpy_scalar(p, a, err, out);
    case CALL_NUMPY_ARRAY:
        return call_numpy_array(p, a, err, out);
    case CALL_NUMPY_BUFFER:
        return call_numpy_buffer(p, a, err, out);
    default:
        pickle_row_name(row, name, sizeof name);
        return error_set(err, INFER_EUNSUPPORTED,
                         "it would call %s, which no weights need", name);
    }
}

/* An enumerator of a program: its class is called with its value, no tuple. */
static bool is_enumerator(const struct pickle *p, uint32_t class, uint32_t arg)
{
    const enum pickle_kind kind = p->node[arg].kind;
    const size_t n = strlen(PICKLE_SCRIPT);

    return p->node[class].count > n &&
           memcmp(p->node[class].u.bytes, PICKLE_SCRIPT, n) == 0 &&
           (kind == PICKLE_STR || kind == PICKLE_INT || kind == PICKLE_FLOAT);
}

int pickle_reduce(struct pickle *p, uint32_t callable, uint32_t args,
                  struct infer_error *err, uint32_t *out)
{
    struct args a = {p->node[args].u.item, p->node[args].count};

    if (p->node[callable].kind == PICKLE_CLASS &&
        is_library(&p->node[callable]) && p->node[args].kind == PICKLE_TUPLE)
        return make(p, PICKLE_OPAQUE, out);
    if (p->node[callable].kind == PICKLE_CLASS &&
        is_enumerator(p, callable, args)) {
        *out = args;
        return 0;
    }
    if (p->node[callable].kind == PICKLE_CLASS)
        return refuse_class(&p->node[callable], "()", err);
    if (p->node[callable].kind != PICKLE_GLOBAL ||
        p->node[args].kind != PICKLE_TUPLE)
        return error_set(err, INFER_EFORMAT,
                         "it would call something that has no name");
    return call_row(p, p->node[callable].row, &a, err, out);
}

int pickle_newobj(struct pickle *p, uint32_t class, uint32_t args,
                  struct infer_error *err, uint32_t *out)
{
    if (p->node[class].kind == PICKLE_CLASS) {
        if (p->node[args].kind != PICKLE_TUPLE || p->node[args].count != 0)
            return refuse_class(&p->node[class], " with arguments", err);
        return make_object(p, class, out);
    }
    if (p->node[class].kind == PICKLE_GLOBAL) {
        enum pickle_call call = pickle_row_at(p->node[class].row)->call;

        if (call == CALL_OPAQUE || call == CALL_DICT || call == CALL_TUPLE ||
            call == CALL_SET)
            return pickle_reduce(p, class, args, err, out);
    }
    return error_set(err, INFER_EUNSUPPORTED,
                     "it would make an object of a class no weights need");
}

/* An object of C++ whose state is a tuple, such as a layer that
 * optimize_for_mobile() packed for XNNPACK. */
static bool is_native(const struct pickle *p, uint32_t object)
{
    static const char prefix[] = PICKLE_SCRIPT "torch.classes.";
    const size_t n = sizeof prefix - 1;
    const struct pickle_node *class =
        pickle_at(p, p->node[object].u.item[PICKLE_OBJECT_CLASS]);

    return class->count > n && memcmp(class->u.bytes, prefix, n) == 0;
}

/* Attributes by name; a pair where some of them are slots. */
static int build_object(struct pickle *p, uint32_t object, uint32_t state,
                        struct infer_error *err)
{
    const struct pickle_node *s = &p->node[state];
    const bool native = s->kind == PICKLE_TUPLE && is_native(p, object);
    uint32_t items[PICKLE_OBJECT_ITEMS];

    if (s->kind == PICKLE_TUPLE && s->count == 2 && !native)
        state = s->u.item[0];
    if (p->node[state].kind == PICKLE_NONE)
        return 0;
    if ((p->node[state].kind != PICKLE_DICT && !native) ||
        p->node[object].count != 1)
        return wrong_args("the state of an object", err);
    items[PICKLE_OBJECT_CLASS] = p->node[object].u.item[PICKLE_OBJECT_CLASS];
    items[PICKLE_OBJECT_STATE] = state;
    return pickle_set_items(p, object, items, PICKLE_OBJECT_ITEMS)
               ? 0
               : INFER_EMEMORY;
}

int pickle_build(struct pickle *p, uint32_t object, uint32_t state,
                 struct infer_error *err)
{
    enum pickle_kind kind = p->node[object].kind;
    enum pickle_kind state_kind = p->node[state].kind;
    struct args a = {p->node[state].u.item, p->node[state].count};

    /* Attributes of dictionaries (state_dict's _metadata), tensors and opaque
     * objects hold nothing that an inference needs. */
    if ((kind == PICKLE_DICT || kind == PICKLE_TENSOR ||
         kind == PICKLE_OPAQUE) &&
        (state_kind == PICKLE_DICT || state_kind == PICKLE_NONE))
        return 0;
    if ((kind == PICKLE_DICT || kind == PICKLE_OPAQUE) &&
        state_kind == PICKLE_TUPLE)
        return 0;
    if (kind == PICKLE_OBJECT)
        return build_object(p, object, state, err);
    if (kind == PICKLE_NUMPY_DTYPE && state_kind == PICKLE_TUPLE)
        return build_numpy_dtype(p, object, &a, err);
    if (kind == PICKLE_ARRAY && state_kind == PICKLE_TUPLE)
        return build_numpy_array(p, object, &a, err);
    return error_set(err, INFER_EFORMAT,
                     "it would set the state of something that takes none");
}
