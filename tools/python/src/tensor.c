/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor: a dense array that NumPy, PyTorch and others read without a copy, by
 * the buffer protocol on the host and by DLPack everywhere. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *format;
} types[INFER_DTYPE_COUNT] = {
    [INFER_F64] = {"float64", "d"}, [INFER_F32] = {"float32", "f"},
    [INFER_F16] = {"float16", "e"}, [INFER_BF16] = {"bfloat16", "H"},
    [INFER_I64] = {"int64", "q"},   [INFER_I32] = {"int32", "i"},
    [INFER_I16] = {"int16", "h"},   [INFER_I8] = {"int8", "b"},
    [INFER_U64] = {"uint64", "Q"},  [INFER_U32] = {"uint32", "I"},
    [INFER_U16] = {"uint16", "H"},  [INFER_U8] = {"uint8", "B"},
    [INFER_BOOL] = {"bool", "?"},   [INFER_F8E4M3] = {"float8_e4m3fn", "B"},
};

const char *tensor_dtype_name(enum infer_dtype dtype)
{
    return dtype > INFER_NONE && dtype < INFER_DTYPE_COUNT ? types[dtype].name
                                                           : NULL;
}

PyObject *tensor_shape(int rank, const int64_t *dim)
{
    PyObject *shape = PyTuple_New(rank < 0 ? 0 : rank);

    for (int i = 0; shape && i < rank; i++) {
        PyObject *n;

        if (dim[i] < 0) {
            Py_INCREF(Py_None);
            n = Py_None;
        } else {
            n = PyLong_FromLongLong(dim[i]);
        }
        if (!n || PyTuple_SetItem(shape, i, n) < 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

static void set_shape(struct tensor *t)
{
    Py_ssize_t stride = (Py_ssize_t)infer_dtype_size(t->view.dtype);

    for (int i = t->view.rank - 1; i >= 0; i--) {
        t->shape[i] = (Py_ssize_t)t->view.dim[i];
        t->strides[i] = stride;
        stride *= t->shape[i] > 0 ? t->shape[i] : 1;
    }
}

struct tensor *tensor_new(enum infer_dtype dtype, int rank, const int64_t *dim)
{
    struct tensor *t = PyObject_New(struct tensor, tensor_type);
    size_t bytes = infer_dtype_size(dtype);

    if (!t)
        return NULL;
    memset(&t->view, 0, sizeof *t - offsetof(struct tensor, view));
    t->view.dtype = dtype;
    t->view.rank = rank;
    for (int i = 0; i < rank; i++) {
        t->view.dim[i] = dim[i];
        bytes *= (size_t)dim[i]; /* counted by the library already */
    }
    if (posix_memalign(&t->memory, 64, bytes ? bytes : 1) != 0) {
        t->memory = NULL;
        Py_DECREF((PyObject *)t);
        PyErr_NoMemory();
        return NULL;
    }
    t->view.data = t->memory;
    t->view.bytes = bytes;
    set_shape(t);
    return t;
}

struct tensor *tensor_lent(struct session *session,
                           const struct infer_tensor *view)
{
    struct tensor *t = PyObject_New(struct tensor, tensor_type);

    if (!t)
        return NULL;
    memset(&t->view, 0, sizeof *t - offsetof(struct tensor, view));
    t->view = *view;
    t->view.name = NULL;
    Py_INCREF((PyObject *)session);
    t->lender = session;
    t->generation = session->generation;
    set_shape(t);
    return t;
}

static void tensor_dealloc(PyObject *object)
{
    struct tensor *self = (struct tensor *)object;
    PyTypeObject *type = Py_TYPE(object);

    free(self->memory);
    Py_XDECREF((PyObject *)self->lender);
    Py_XDECREF(self->name);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* Before memory is handed out: a lent output must be that of the last run. */
static int check_fresh(const struct tensor *self)
{
    if (self->lender && (!self->lender->session ||
                         self->generation != self->lender->generation)) {
        PyErr_SetString(PyExc_BufferError,
                        "this output was lent until the next run of its "
                        "session, which has been");
        return -1;
    }
    return 0;
}

/* ---- buffer protocol ----------------------------------------------- */

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct tensor *self = (struct tensor *)object;

    view->obj = NULL;
    if (self->view.memory != INFER_MEMORY_HOST) {
        PyErr_SetString(PyExc_BufferError,
                        "the tensor is in memory of a GPU: use DLPack "
                        "(torch.from_dlpack)");
        return -1;
    }
    if (check_fresh(self) < 0)
        return -1;
    if (self->lender && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "a lent output is read-only");
        return -1;
    }
    view->buf = self->view.data;
    view->len = (Py_ssize_t)self->view.bytes;
    view->itemsize = (Py_ssize_t)infer_dtype_size(self->view.dtype);
    view->readonly = self->lender != NULL;
    view->ndim = self->view.rank;
    view->format = flags & PyBUF_FORMAT
                       ? (char *)(uintptr_t)types[self->view.dtype].format
                       : NULL;
    view->shape = flags & PyBUF_ND ? self->shape : NULL;
    view->strides =
        (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    Py_INCREF(object);
    view->obj = object;
    if (self->lender)
        self->lender->lent++;
    return 0;
}

static void tensor_releasebuffer(PyObject *object, Py_buffer *view)
{
    struct tensor *self = (struct tensor *)object;

    (void)view;
    if (self->lender)
        self->lender->lent--;
}

/* ---- DLPack out ---------------------------------------------------- */

/* Deleters run in any thread. */
static void release_tensor(void *user)
{
    struct tensor *self = user;

    if (!Py_IsInitialized())
        return;
    const PyGILState_STATE state = PyGILState_Ensure();

    if (self->lender)
        self->lender->lent--;
    Py_DECREF((PyObject *)self);
    PyGILState_Release(state);
}

static void drop_capsule(PyObject *capsule)
{
    struct infer_dlpack_managed *old;
    struct infer_dlpack_versioned *now;

    if (PyCapsule_IsValid(capsule, "dltensor")) {
        old = PyCapsule_GetPointer(capsule, "dltensor");
        old->deleter(old);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        now = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        now->deleter(now);
    }
}

/* Whether max_version (None or a tuple) allows the struct of version 1. */
static int wants_versioned(PyObject *max_version)
{
    PyObject *major;
    long n;

    if (max_version == Py_None)
        return 0;
    major = PySequence_GetItem(max_version, 0);
    if (!major)
        return -1;
    n = PyLong_AsLong(major);
    Py_DECREF(major);
    return n == -1 && PyErr_Occurred() ? -1 : n >= 1;
}

static PyObject *make_capsule(struct tensor *self, int versioned)
{
    struct infer_dlpack_versioned *now;
    struct infer_dlpack_managed *old;
    struct infer_error err;
    PyObject *capsule;
    int rc;

    Py_INCREF((PyObject *)self);
    if (self->lender)
        self->lender->lent++;
    rc = versioned
             ? infer_tensor_to_dlpack(&self->view,
                                      self->lender ? INFER_DLPACK_READ_ONLY : 0,
                                      release_tensor, self, &err, &now)
             : infer_tensor_to_dlpack_old(&self->view, release_tensor, self,
                                          &err, &old);
    if (rc < 0)
        return raise_error(rc, &err);
    capsule = versioned ? PyCapsule_New(now, "dltensor_versioned", drop_capsule)
                        : PyCapsule_New(old, "dltensor", drop_capsule);
    if (!capsule) {
        if (versioned)
            now->deleter(now);
        else
            old->deleter(old);
    }
    return capsule;
}

static PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kw)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    struct tensor *self = (struct tensor *)object;
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None,
             *copy = Py_None;
    int versioned;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", names,
                                     &stream, &max_version, &device, &copy))
        return NULL;
    /* Runs end before they return: any stream may read now. */
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "copies are the consumer's");
        return NULL;
    }
    versioned = wants_versioned(max_version);
    if (versioned < 0 || check_fresh(self) < 0)
        return NULL;
    return make_capsule(self, versioned);
}

static PyObject *tensor_dlpack_device(PyObject *object, PyObject *unused)
{
    const struct tensor *self = (struct tensor *)object;

    (void)unused;
    return self->view.memory == INFER_MEMORY_CUDA
               ? Py_BuildValue("(ii)", INFER_DLPACK_CUDA, self->view.device)
               : Py_BuildValue("(ii)", INFER_DLPACK_CPU, 0);
}

/* ---- attributes ---------------------------------------------------- */

static PyObject *tensor_numpy(PyObject *object, PyObject *unused)
{
    PyObject *numpy = PyImport_ImportModule("numpy"), *array;

    (void)unused;
    if (!numpy)
        return NULL;
    array = PyObject_CallMethod(numpy, "asarray", "O", object);
    Py_DECREF(numpy);
    return array;
}

static PyObject *get_shape(PyObject *object, void *unused)
{
    const struct tensor *self = (struct tensor *)object;

    (void)unused;
    return tensor_shape(self->view.rank, self->view.dim);
}

static PyObject *get_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(
        tensor_dtype_name(((struct tensor *)object)->view.dtype));
}

static PyObject *get_device(PyObject *object, void *unused)
{
    const struct tensor *self = (struct tensor *)object;

    (void)unused;
    return self->view.memory == INFER_MEMORY_CUDA
               ? PyUnicode_FromFormat("cuda:%d", self->view.device)
               : PyUnicode_FromString("cpu");
}

static PyObject *get_name(PyObject *object, void *unused)
{
    PyObject *name = ((struct tensor *)object)->name;

    (void)unused;
    if (!name)
        name = Py_None;
    Py_INCREF(name);
    return name;
}

static PyObject *tensor_repr(PyObject *object)
{
    PyObject *shape = get_shape(object, NULL), *name = get_name(object, NULL);
    PyObject *text = NULL;

    if (shape && name)
        text = PyUnicode_FromFormat(
            "<libinfer.Tensor %S %s %S%s>", name,
            tensor_dtype_name(((struct tensor *)object)->view.dtype), shape,
            ((struct tensor *)object)->lender ? ", lent" : "");
    Py_XDECREF(shape);
    Py_XDECREF(name);
    return text;
}

static Py_ssize_t tensor_length(PyObject *object)
{
    const struct tensor *self = (struct tensor *)object;

    if (self->view.rank == 0) {
        PyErr_SetString(PyExc_TypeError, "a tensor of rank 0 has no len()");
        return -1;
    }
    return self->shape[0];
}

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "Sizes of the dimensions, N,C,H,W.", NULL},
    {"dtype", get_dtype, NULL, "Type of the elements, as NumPy names it.",
     NULL},
    {"device", get_device, NULL, "'cpu' or 'cuda:N'.", NULL},
    {"name", get_name, NULL, "Name of the output, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack,
     METH_VARARGS | METH_KEYWORDS, "A DLPack capsule; no copy is made."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "(1, 0) on the host, (2, N) on GPU N."},
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy() -> numpy.ndarray\n\nThe same memory as an array of NumPy."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_sq_length, tensor_length},
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_bf_releasebuffer, tensor_releasebuffer},
    {Py_tp_doc, "A dense array: numpy.asarray() and torch.from_dlpack() read "
                "its memory without a copy."},
    {0, NULL},
};

static PyType_Spec tensor_spec = {
    "libinfer.Tensor", sizeof(struct tensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

int tensor_ready(PyObject *module)
{
    tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
    return tensor_type ? PyModule_AddObjectRef(module, "Tensor",
                                               (PyObject *)tensor_type)
                       : -1;
}
