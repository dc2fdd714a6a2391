/* SPDX-License-Identifier: Apache-2.0 */
/* Model: a file or bytes that wconv wrote, and its preprocessing of pictures.
 */
#include "native.h"

#include <string.h>

struct infer_model *model_open(struct model *self)
{
    if (!self->model)
        PyErr_SetString(PyExc_ValueError, "the model is closed");
    return self->model;
}

/* ---- opening ------------------------------------------------------- */

/* Called where the library needs the bytes no more, in any thread. */
static void release_buffer(void *user)
{
    const PyGILState_STATE state = PyGILState_Ensure();

    PyBuffer_Release(user);
    PyMem_Free(user);
    PyGILState_Release(state);
}

static int open_bytes(PyObject *source, struct infer_error *err,
                      struct infer_model **out)
{
    Py_buffer *view = PyMem_Malloc(sizeof *view);
    int rc;

    if (!view) {
        PyErr_NoMemory();
        return 1;
    }
    if (PyObject_GetBuffer(source, view, PyBUF_SIMPLE) < 0) {
        PyMem_Free(view);
        return 1;
    }
    PyThreadState *const saved = PyEval_SaveThread();
    rc = infer_model_open_memory(view->buf, (size_t)view->len, release_buffer,
                                 view, err, out);
    PyEval_RestoreThread(saved);
    return rc;
}

/* 1: an exception is set already. */
static int open_path(PyObject *source, struct infer_error *err,
                     struct infer_model **out)
{
    PyObject *path;
    int rc;

    if (!PyUnicode_FSConverter(source, &path))
        return 1;
    const char *name = PyBytes_AsString(path);

    PyThreadState *const saved = PyEval_SaveThread();
    rc = infer_model_open(name, err, out);
    PyEval_RestoreThread(saved);
    Py_DECREF(path);
    return rc;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"", NULL};
    struct infer_model *model = NULL;
    struct infer_error err;
    struct model *self;
    PyObject *source;
    int rc;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O:Model", names, &source))
        return NULL;
    rc = PyObject_CheckBuffer(source) ? open_bytes(source, &err, &model)
                                      : open_path(source, &err, &model);
    if (rc != 0)
        return rc < 0 ? raise_error(rc, &err) : NULL;
    self = PyObject_New(struct model, model_type);
    if (self) {
        self->model = model;
        self->users = 0;
    } else {
        infer_model_close(&model);
    }
    return (PyObject *)self;
}

static void model_dealloc(PyObject *object)
{
    struct model *self = (struct model *)object;
    PyTypeObject *type = Py_TYPE(object);

    infer_model_close(&self->model);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *model_close(PyObject *object, PyObject *unused)
{
    struct model *self = (struct model *)object;

    (void)unused;
    if (self->users > 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the model is in use by another thread");
        return NULL;
    }
    infer_model_close(&self->model);
    Py_RETURN_NONE;
}

static PyObject *model_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    Py_INCREF(object);
    return object;
}

static PyObject *model_exit(PyObject *object, PyObject *args)
{
    (void)args;
    return model_close(object, NULL);
}

/* ---- facts --------------------------------------------------------- */

typedef int info_fn(const struct infer_model *model, int index,
                    struct infer_tensor_info *out);

static PyObject *list_tensors(PyObject *object, int count, info_fn *get)
{
    struct infer_model *model = model_open((struct model *)object);
    PyObject *list = model ? PyList_New(0) : NULL;
    struct infer_tensor_info info;

    for (int i = 0; list && i < count; i++) {
        PyObject *item = NULL;

        if (get(model, i, &info) == 0) {
            PyObject *shape = info.rank < 0 ? Py_BuildValue("")
                                            : tensor_shape(info.rank, info.dim);

            if (shape)
                item =
                    PyObject_CallFunction(tensor_info, "ssN", info.name,
                                          tensor_dtype_name(info.dtype), shape);
        }
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *get_inputs(PyObject *object, void *unused)
{
    (void)unused;
    return list_tensors(
        object, infer_model_input_count(((struct model *)object)->model),
        infer_model_input);
}

static PyObject *get_outputs(PyObject *object, void *unused)
{
    (void)unused;
    return list_tensors(
        object, infer_model_output_count(((struct model *)object)->model),
        infer_model_output);
}

static PyObject *get_labels(PyObject *object, void *unused)
{
    struct infer_model *model = model_open((struct model *)object);
    PyObject *list = model ? PyList_New(0) : NULL;

    (void)unused;
    for (int i = 0; list && i < infer_model_label_count(model); i++) {
        PyObject *item = PyUnicode_FromString(infer_model_label(model, i));

        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *get_name(PyObject *object, void *unused)
{
    struct infer_model *model = model_open((struct model *)object);

    (void)unused;
    return model ? PyUnicode_FromString(infer_model_name(model)) : NULL;
}

static PyObject *model_repr(PyObject *object)
{
    const struct model *self = (struct model *)object;

    return self->model ? PyUnicode_FromFormat("<libinfer.Model '%s'>",
                                              infer_model_name(self->model))
                       : PyUnicode_FromString("<libinfer.Model, closed>");
}

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

static PyObject *model_preprocess(PyObject *object, PyObject *args,
                                  PyObject *kw)
{
    static char *names[] = {"", "size", "index", NULL};
    struct infer_model *model = model_open((struct model *)object);
    long long size[2] = {0, 0};
    int64_t dim[4], hw[2];
    struct tensor *out;
    PyObject *pictures;
    int index = 0, failed = 0;

    if (!model ||
        !PyArg_ParseTupleAndKeywords(args, kw, "O|(LL)i:preprocess", names,
                                     &pictures, &size[0], &size[1], &index))
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

/* ---- the type ------------------------------------------------------ */

static PyGetSetDef model_getset[] = {
    {"name", get_name, NULL, "Name of the network, '' without one.", NULL},
    {"inputs", get_inputs, NULL,
     "Inputs in the order of the file: a list of TensorInfo.", NULL},
    {"outputs", get_outputs, NULL,
     "Outputs in the order of the file: a list of TensorInfo.", NULL},
    {"labels", get_labels, NULL, "Names of the classes; empty without.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef model_methods[] = {
    {"preprocess", (PyCFunction)(void (*)(void))model_preprocess,
     METH_VARARGS | METH_KEYWORDS,
     "preprocess(picture, size=None, index=0) -> Tensor\n\n"
     "Applies the model's resize, crop, colour order, mean and scale.\n\n"
     "picture: a path, the bytes of a PNG or JPEG file, an array of uint8 "
     "with\n"
     "shape H,W or H,W,3 (RGB), or a list of these.  size: (height, width), "
     "if\n"
     "the model leaves them free.  The result is float32, N,C,H,W."},
    {"close", model_close, METH_NOARGS,
     "Closes the model; its sessions go on."},
    {"__enter__", model_enter, METH_NOARGS, NULL},
    {"__exit__", model_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_getset},
    {Py_tp_repr, model_repr},
    {Py_tp_doc,
     "Model(source)\n\nA model that wconv wrote.  source: a path, or the "
     "bytes of a model file,\nwhich are not copied."},
    {0, NULL},
};

static PyType_Spec model_spec = {"libinfer.Model", sizeof(struct model), 0,
                                 Py_TPFLAGS_DEFAULT, model_slots};

int model_ready(PyObject *module)
{
    model_type = (PyTypeObject *)PyType_FromSpec(&model_spec);
    return model_type
               ? PyModule_AddObjectRef(module, "Model", (PyObject *)model_type)
               : -1;
}
