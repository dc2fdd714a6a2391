/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of other libraries as struct infer_tensor, without a copy. */
#include "native.h"

#include <string.h>

/* ---- buffer protocol ----------------------------------------------- */

static enum infer_dtype integer_of(Py_ssize_t size, int is_signed)
{
    switch (size) {
    case 1:
        return is_signed ? INFER_I8 : INFER_U8;
    case 2:
        return is_signed ? INFER_I16 : INFER_U16;
    case 4:
        return is_signed ? INFER_I32 : INFER_U32;
    case 8:
        return is_signed ? INFER_I64 : INFER_U64;
    }
    return INFER_NONE;
}

/* The type of a format of struct; the sizes of l and q are those of C. */
static enum infer_dtype type_of(const char *format, Py_ssize_t size)
{
    if (!format)
        return INFER_U8;
    if (*format == '@' || *format == '=' || *format == '<' || *format == '|')
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return INFER_NONE;
    if (*format == 'e' && size == 2)
        return INFER_F16;
    if (*format == 'f' && size == 4)
        return INFER_F32;
    if (*format == 'd' && size == 8)
        return INFER_F64;
    if (*format == '?' && size == 1)
        return INFER_BOOL;
    if (strchr("bhilq", *format))
        return integer_of(size, 1);
    return strchr("BHILQ", *format) ? integer_of(size, 0) : INFER_NONE;
}

/* Strides in elements; sets bytes, from the first element on. */
static int read_strides(struct borrowed *b)
{
    const Py_buffer *from = &b->buffer;
    Py_ssize_t above = from->itemsize;
    int dense = PyBuffer_IsContiguous(from, 'C');

    for (int i = 0; i < from->ndim; i++) {
        if (from->shape[i] == 0)
            above = 0;
        b->view.dim[i] = from->shape[i];
    }
    for (int i = 0; i < from->ndim && !dense; i++) {
        if (from->strides[i] % from->itemsize != 0) {
            PyErr_SetString(PyExc_BufferError,
                            "strides are no whole number of elements");
            return -1;
        }
        b->stride[i] = from->strides[i] / from->itemsize;
        if (above > 0 && from->strides[i] > 0)
            above += (from->shape[i] - 1) * from->strides[i];
    }
    b->view.stride = dense ? NULL : b->stride;
    b->view.bytes = (size_t)(dense ? from->len : above);
    return 0;
}

static int borrow_buffer(PyObject *object, int writable, struct borrowed *b)
{
    const int flags = writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO;

    if (PyObject_GetBuffer(object, &b->buffer, flags) < 0) {
        b->buffer.obj = NULL;
        return -1;
    }
    b->view.dtype = type_of(b->buffer.format, b->buffer.itemsize);
    b->view.rank = b->buffer.ndim;
    b->view.data = b->buffer.buf;
    if (b->view.dtype == INFER_NONE || b->buffer.ndim > INFER_MAX_RANK) {
        PyErr_Format(PyExc_BufferError,
                     "an array of format '%s' with %d dimensions is not "
                     "supported: numbers in up to %d dimensions are",
                     b->buffer.format ? b->buffer.format : "B", b->buffer.ndim,
                     INFER_MAX_RANK);
        return -1;
    }
    return read_strides(b);
}

/* ---- DLPack -------------------------------------------------------- */

/* Calls object.__dlpack__(stream=, max_version=(1, 0)), and without the version
 * where the library is older than it. */
static PyObject *ask_capsule(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *args = PyTuple_New(0), *capsule = NULL;
    PyObject *kw = stream ? Py_BuildValue("{s:(ii),s:O}", "max_version", 1, 0,
                                          "stream", stream)
                          : Py_BuildValue("{s:(ii)}", "max_version", 1, 0);

    if (method && args && kw) {
        capsule = PyObject_Call(method, args, kw);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (PyDict_DelItemString(kw, "max_version") == 0)
                capsule = PyObject_Call(method, args, kw);
        }
    }
    Py_XDECREF(kw);
    Py_XDECREF(args);
    Py_XDECREF(method);
    return capsule;
}

/* object.name, a path with dots; NULL with an exception. */
static PyObject *attribute(PyObject *object, const char *first,
                           const char *second, const char *third)
{
    const char *const names[] = {first, second, third};

    Py_INCREF(object);
    for (int i = 0; object && i < 3 && names[i]; i++) {
        PyObject *const next = PyObject_GetAttrString(object, names[i]);

        Py_DECREF(object);
        object = next;
    }
    return object;
}

/* 1 or 0 as the attribute is, or what it returns if it is called; -1 with an
 * exception. */
static int holds(PyObject *object, const char *name, int call)
{
    PyObject *value = PyObject_GetAttrString(object, name), *result = value;
    int truth;

    if (value && call) {
        result = PyObject_CallNoArgs(value);
        Py_DECREF(value);
    }
    truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return truth;
}

/* A capsule of PyTorch's exporter in C, for a plain tensor in host memory, for
 * which __dlpack__ and __dlpack_device__ do the same in Python (16 us).  NULL
 * without an exception: another object, or one that __dlpack__ treats
 * otherwise. */
static PyObject *ask_torch(PyObject *object)
{
    static PyObject *tensor, *export; /* torch.Tensor, torch.to_dlpack */
    PyObject *capsule = NULL;

    if (!tensor) {
        PyObject *name = PyUnicode_FromString("torch");
        PyObject *torch = name ? PyImport_GetModule(name) : NULL;

        Py_XDECREF(name);
        if (torch)
            export = attribute(torch, "utils", "dlpack", "to_dlpack");
        if (torch && export)
            tensor = attribute(torch, "Tensor", NULL, NULL);
        Py_XDECREF(torch);
    }
    if (tensor && (PyObject *)Py_TYPE(object) == tensor &&
        holds(object, "is_cpu", 0) == 1 &&
        holds(object, "requires_grad", 0) == 0 &&
        holds(object, "is_neg", 1) == 0)
        capsule = PyObject_CallFunctionObjArgs(export, object, NULL);
    PyErr_Clear();
    return capsule;
}

static const struct infer_dlpack_tensor *open_capsule(PyObject *capsule,
                                                      int writable)
{
    struct infer_dlpack_versioned *now;
    struct infer_dlpack_managed *old;

    if (PyCapsule_IsValid(capsule, "dltensor")) {
        old = PyCapsule_GetPointer(capsule, "dltensor");
        return &old->tensor;
    }
    now = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (!now)
        return NULL;
    if (now->major != 1) {
        PyErr_Format(PyExc_BufferError, "DLPack version %d, expected 1",
                     (int)now->major);
        return NULL;
    }
    if (writable && now->flags & INFER_DLPACK_READ_ONLY) {
        PyErr_SetString(PyExc_BufferError, "the output array is read-only");
        return NULL;
    }
    return &now->tensor;
}

/* Whether __dlpack_device__() says a GPU; -1: an exception. */
static int is_on_gpu(PyObject *object)
{
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    PyObject *kind = device ? PySequence_GetItem(device, 0) : NULL;
    const long n = kind ? PyLong_AsLong(kind) : -1;

    Py_XDECREF(kind);
    Py_XDECREF(device);
    if (PyErr_Occurred())
        return -1;
    return n == INFER_DLPACK_CUDA || n == INFER_DLPACK_CUDA_MANAGED;
}

static int borrow_dlpack(PyObject *object, int writable, PyObject *stream,
                         struct borrowed *b)
{
    const struct infer_dlpack_tensor *dl;
    struct infer_error err;
    int rc;

    b->capsule = ask_torch(object);
    if (!b->capsule) {
        const int gpu = is_on_gpu(object);

        if (gpu < 0)
            return -1;
        b->capsule = ask_capsule(object, gpu ? stream : NULL);
    }
    dl = b->capsule ? open_capsule(b->capsule, writable) : NULL;
    if (!dl)
        return -1;
    rc = infer_tensor_from_dlpack(dl, &err, &b->view);
    if (rc < 0)
        raise_error(rc, &err);
    return rc < 0 ? -1 : 0;
}

int borrow(PyObject *object, int writable, PyObject *stream,
           struct borrowed *out)
{
    int rc;

    memset(out, 0, sizeof *out);
    if (PyObject_CheckBuffer(object) &&
        !(Py_TYPE(object) == tensor_type &&
          ((struct tensor *)object)->view.memory == INFER_MEMORY_CUDA)) {
        rc = borrow_buffer(object, writable, out);
    } else if (PyObject_HasAttrString(object, "__dlpack__")) {
        rc = borrow_dlpack(object, writable, stream, out);
    } else {
        PyErr_Format(PyExc_TypeError,
                     "expected an array (NumPy, PyTorch, CuPy, or another with "
                     "the buffer protocol or __dlpack__), found %R",
                     Py_TYPE(object));
        rc = -1;
    }
    if (rc < 0)
        give_back(out);
    return rc;
}

/* The capsule was not consumed: its destructor calls the deleter. */
void give_back(struct borrowed *b)
{
    if (b->buffer.obj)
        PyBuffer_Release(&b->buffer);
    b->buffer.obj = NULL;
    Py_CLEAR(b->capsule);
}
