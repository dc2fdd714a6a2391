/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of Model for pictures: what its input expects of them, and what a
 * detector found in them. */
#include "native.h"

#include <string.h>

#include <infer_detect.h>

/* ---- pictures ------------------------------------------------------ */

/* A picture of the caller's pixels, or one that was decoded. */
struct picture {
    struct infer_image image;
    struct borrowed pixels;
    int decoded;
};

static void picture_clear(struct picture *p)
{
    if (p->decoded)
        infer_image_free(&p->image);
    give_back(&p->pixels);
}

/* Pixels: H,W or H,W,1 or H,W,3 bytes. */
static int use_pixels(struct picture *p)
{
    const struct infer_tensor *t = &p->pixels.view;
    const int64_t channels = t->rank == 3 ? t->dim[2] : 1;

    if (t->dtype != INFER_U8 || t->rank < 2 || t->rank > 3 || t->stride ||
        (channels != 1 && channels != 3) || t->dim[0] < 1 || t->dim[1] < 1 ||
        t->dim[0] > INT32_MAX || t->dim[1] > INT32_MAX ||
        t->memory != INFER_MEMORY_HOST) {
        PyErr_SetString(PyExc_ValueError,
                        "pixels: expected a dense array of uint8 with shape "
                        "H,W or H,W,3 (RGB)");
        return -1;
    }
    p->image.height = (int)t->dim[0];
    p->image.width = (int)t->dim[1];
    p->image.channels = (int)channels;
    p->image.pixels = t->data;
    return 0;
}

/* source: a path, the bytes of a PNG or JPEG file, or an array of pixels. */
static int picture_open(PyObject *source, struct picture *p)
{
    PyObject *path = NULL;
    struct infer_error err;
    int rc;

    memset(p, 0, sizeof *p);
    if (!PyBytes_Check(source) && !PyByteArray_Check(source) &&
        (PyObject_CheckBuffer(source) ||
         PyObject_HasAttrString(source, "__dlpack__"))) {
        if (borrow(source, 0, NULL, &p->pixels) < 0)
            return -1;
        return use_pixels(p);
    }
    if (PyBytes_Check(source) || PyByteArray_Check(source)) {
        if (borrow(source, 0, NULL, &p->pixels) < 0)
            return -1;
    } else if (!PyUnicode_FSConverter(source, &path)) {
        return -1;
    }
    const char *name = path ? PyBytes_AsString(path) : NULL;

    PyThreadState *const saved = PyEval_SaveThread();
    rc = name ? infer_image_load(name, 0, &err, &p->image)
              : infer_image_decode(p->pixels.view.data, p->pixels.view.bytes, 0,
                                   &err, &p->image);
    PyEval_RestoreThread(saved);
    Py_XDECREF(path);
    if (rc < 0) {
        raise_error(rc, &err);
        return -1;
    }
    p->decoded = 1;
    return 0;
}

/* The shape of the array for n pictures; size: (h, w) or (0, 0). */
static int input_shape(const struct infer_model *model, int index, Py_ssize_t n,
                       const int64_t *size, int64_t *dim)
{
    struct infer_tensor_info info;

    if (infer_model_input(model, index, &info) < 0 || info.rank != 4) {
        PyErr_Format(PyExc_ValueError, "input %d takes no pictures", index);
        return -1;
    }
    dim[0] = n;
    dim[1] = info.dim[1];
    for (int k = 0; k < 2; k++) {
        dim[2 + k] = info.dim[2 + k] >= 0 ? info.dim[2 + k] : size[k];
        if (dim[2 + k] < 1) {
            PyErr_SetString(PyExc_ValueError,
                            "the model leaves the size of pictures free: "
                            "size=(height, width) is needed");
            return -1;
        }
    }
    if (dim[1] < 1 || dim[2] > INT32_MAX || dim[3] > INT32_MAX ||
        (double)n * (double)dim[1] * (double)dim[2] * (double)dim[3] > 1e12) {
        PyErr_SetString(PyExc_ValueError, "the pictures are too large");
        return -1;
    }
    return 0;
}

static int preprocess_one(struct infer_model *model, int index,
                          PyObject *source, const int64_t *hw, float *to,
                          size_t bytes)
{
    struct infer_error err;
    struct picture picture;
    int rc = picture_open(source, &picture);

    if (rc == 0) {
        PyThreadState *const saved = PyEval_SaveThread();
        rc = infer_model_preprocess(model, index, &picture.image, hw, to, bytes,
                                    &err);
        PyEval_RestoreThread(saved);
        if (rc < 0)
            raise_error(rc, &err);
    }
    picture_clear(&picture);
    return rc < 0 ? -1 : 0;
}

/* size=(height, width); None leaves what is there.  A converter of "O&". */
static int take_size(PyObject *source, void *to)
{
    long long *size = to;
    PyObject *tuple;
    int taken;

    if (source == Py_None)
        return 1;
    tuple = PySequence_Tuple(source);
    if (!tuple)
        return 0;
    taken = PyArg_ParseTuple(tuple, "LL;size: expected (height, width)",
                             &size[0], &size[1]);
    Py_DECREF(tuple);
    return taken;
}

PyObject *model_preprocess(PyObject *object, PyObject *args, PyObject *kw)
{
    static char *names[] = {"", "size", "index", NULL};
    struct infer_model *model = model_open((struct model *)object);
    long long size[2] = {0, 0};
    int64_t dim[4], hw[2];
    struct tensor *out;
    PyObject *pictures;
    int index = 0, failed = 0;

    if (!model ||
        !PyArg_ParseTupleAndKeywords(args, kw, "O|O&i:preprocess", names,
                                     &pictures, take_size, size, &index))
        return NULL;
    const int many = PyList_Check(pictures) || PyTuple_Check(pictures);
    const Py_ssize_t n = many ? PySequence_Size(pictures) : 1;

    hw[0] = size[0];
    hw[1] = size[1];
    if (input_shape(model, index, n, hw, dim) < 0)
        return NULL;
    hw[0] = dim[2];
    hw[1] = dim[3];
    out = tensor_new(INFER_F32, 4, dim);
    ((struct model *)object)->users++;
    for (Py_ssize_t i = 0; out && i < n && !failed; i++) {
        const size_t bytes = out->view.bytes / (size_t)n;
        PyObject *one = many ? PySequence_GetItem(pictures, i) : pictures;

        failed = !one || preprocess_one(model, index, one, hw,
                                        (float *)(void *)((char *)out->memory +
                                                          bytes * (size_t)i),
                                        bytes) < 0;
        if (many)
            Py_XDECREF(one);
    }
    ((struct model *)object)->users--;
    if (failed)
        Py_CLEAR(out);
    return (PyObject *)out;
}

/* ---- boxes --------------------------------------------------------- */

#define MOST_OUTPUTS 64

/* Width and height of a picture, or of a tuple (height, width). */
static int picture_size(PyObject *source, struct infer_image *out)
{
    struct picture p;

    memset(out, 0, sizeof *out);
    out->channels = 3;
    if (PyTuple_Check(source))
        return PyArg_ParseTuple(source, "ii:picture", &out->height, &out->width)
                   ? 0
                   : -1;
    if (picture_open(source, &p) < 0) {
        picture_clear(&p);
        return -1;
    }
    out->width = p.image.width;
    out->height = p.image.height;
    picture_clear(&p);
    return 0;
}

/* Dense arrays in host memory; *n of `held` are to be given back. */
static int borrow_results(PyObject *list, struct borrowed *held,
                          struct infer_array *out, int *n)
{
    const Py_ssize_t count = PySequence_Size(list);

    *n = 0;
    if (count > MOST_OUTPUTS) {
        PyErr_Format(PyExc_ValueError,
                     "outputs: %zd are given, at most %d are read", count,
                     MOST_OUTPUTS);
        return -1;
    }
    for (; *n < count; ++*n) {
        PyObject *one = PySequence_GetItem(list, *n);
        const int rc = one ? borrow(one, 0, NULL, &held[*n]) : -1;
        const struct infer_tensor *t = &held[*n].view;

        Py_XDECREF(one);
        if (rc < 0)
            return -1;
        out[*n] = (struct infer_array){.dtype = t->dtype,
                                       .rank = t->rank,
                                       .data = t->data,
                                       .bytes = t->bytes};
        memcpy(out[*n].dim, t->dim, sizeof out[*n].dim);
        if (t->stride || t->memory != INFER_MEMORY_HOST) {
            ++*n;
            PyErr_SetString(PyExc_ValueError,
                            "outputs: dense arrays in host memory are "
                            "expected");
            return -1;
        }
    }
    return count < 0 ? -1 : 0;
}

/* Rows of `each` floats as tuples. */
static PyObject *rows_of(const float *at, int n, int each)
{
    PyObject *list = PyList_New(n);

    for (int i = 0; list && i < n; i++, at += each) {
        PyObject *row =
            each == 3 ? Py_BuildValue("(ddd)", (double)at[0], (double)at[1],
                                      (double)at[2])
                      : Py_BuildValue("(dd)", (double)at[0], (double)at[1]);

        if (!row || PyList_SetItem(list, i, row) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* A dict with the names of infer --json. */
static PyObject *box_of(const struct infer_model *model,
                        const struct infer_box *b)
{
    const char *label = infer_model_label(model, b->label);
    PyObject *box = Py_BuildValue(
        "{s:i,s:d,s:d,s:d,s:d,s:d}", "class", b->label, "score",
        (double)b->score, "left", (double)b->left, "top", (double)b->top,
        "right", (double)b->right, "bottom", (double)b->bottom);
    PyObject *more = NULL;

    if (box && label) {
        more = PyUnicode_FromString(label);
        if (!more || PyDict_SetItemString(box, "label", more) < 0)
            Py_CLEAR(box);
        Py_CLEAR(more);
    }
    if (box && b->n_points > 0) {
        more = rows_of(b->point, b->n_points, 3);
        if (!more || PyDict_SetItemString(box, "points", more) < 0)
            Py_CLEAR(box);
        Py_CLEAR(more);
    }
    if (box && b->oriented) {
        more = rows_of(b->corner, 4, 2);
        if (!more || PyDict_SetItemString(box, "corners", more) < 0)
            Py_CLEAR(box);
        Py_CLEAR(more);
    }
    return box;
}

static PyObject *list_of(const struct infer_model *model,
                         const struct infer_boxes *boxes)
{
    PyObject *list = PyList_New(boxes->count);

    for (int i = 0; list && i < boxes->count; i++) {
        PyObject *box = box_of(model, &boxes->box[i]);

        if (!box || PyList_SetItem(list, i, box) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *model_detect(PyObject *object, PyObject *args, PyObject *kw)
{
    static char *names[] = {"",     "",      "score", "iou", "task",
                            "size", "batch", "entry", NULL};
    struct infer_model *model = model_open((struct model *)object);
    struct infer_detect_options options;
    struct infer_array out[MOST_OUTPUTS];
    struct borrowed held[MOST_OUTPUTS];
    struct infer_boxes boxes = {0};
    struct infer_image picture;
    struct infer_error err;
    PyObject *outputs, *source, *list = NULL;
    long long size[2] = {0, 0}, batch = 1, entry = 0;
    int n = 0, rc;

    infer_detect_options_init(&options);
    if (!model || !PyArg_ParseTupleAndKeywords(
                      args, kw, "OO|$ffzO&LL:detect", names, &outputs, &source,
                      &options.score, &options.iou, &options.task, take_size,
                      size, &batch, &entry))
        return NULL;
    const int64_t hw[2] = {size[0], size[1]};

    options.batch = batch;
    options.entry = entry;
    options.shape_hw = size[0] > 0 ? hw : NULL;
    ((struct model *)object)->users++;
    if (picture_size(source, &picture) == 0 &&
        borrow_results(outputs, held, out, &n) == 0) {
        PyThreadState *const saved = PyEval_SaveThread();

        rc = infer_detect(model, out, n, &picture, &options, &err, &boxes);
        PyEval_RestoreThread(saved);
        list = rc < 0 ? raise_error(rc, &err) : list_of(model, &boxes);
        infer_boxes_free(&boxes);
    }
    while (n > 0)
        give_back(&held[--n]);
    ((struct model *)object)->users--;
    return list;
}
