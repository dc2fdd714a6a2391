/* SPDX-License-Identifier: Apache-2.0 */
/* The types of the extension module libinfer._native.  It keeps to the limited
 * API of Python 3.11, so that one binary serves all later versions. */
#ifndef TOOLS_PYTHON_SRC_NATIVE_H
#define TOOLS_PYTHON_SRC_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <infer.h>
#include <infer_dlpack.h>

struct model {
    PyObject ob_base;
    struct infer_model *model; /* NULL: closed */
    int users; /* calls that use it without the interpreter's lock */
};

struct session {
    PyObject ob_base;
    struct infer_session *session; /* NULL: closed */
    struct model *model;
    int n_out;     /* outputs of the model */
    PyObject *log; /* NULL: none */
    int gpu;
    PyObject *stream; /* what producers of DLPack tensors are told; on a GPU */
    /* Held while the session is used; owner: the thread that holds it. */
    PyThread_type_lock lock;
    unsigned long owner;
    int held;
    /* The interpreter's lock guards these.  A lent output is that of the run
     * `generation`; lent: exports of such outputs that are in use. */
    unsigned long generation;
    Py_ssize_t lent;
};

/* A dense array: own memory, or an output that a session lends. */
struct tensor {
    PyObject ob_base;
    struct infer_tensor view;
    void *memory;           /* own; NULL: lent */
    struct session *lender; /* NULL: own memory */
    unsigned long generation;
    PyObject *name; /* str or NULL */
    Py_ssize_t shape[INFER_MAX_RANK], strides[INFER_MAX_RANK];
};

extern PyTypeObject *model_type, *session_type, *tensor_type;

/* ---- module.c ------------------------------------------------------ */

/* Raises the exception of libinfer.errors for a code; returns NULL. */
PyObject *raise_error(int code, const struct infer_error *err);

/* libinfer.info.TensorInfo */
extern PyObject *tensor_info;

/* ---- pictures.c ---------------------------------------------------- */

PyObject *model_preprocess(PyObject *object, PyObject *args, PyObject *kw);
PyObject *model_detect(PyObject *object, PyObject *args, PyObject *kw);

/* ---- tensor.c ------------------------------------------------------ */

int tensor_ready(PyObject *module);
/* "float32" and the like; NULL for a type without a name. */
const char *tensor_dtype_name(enum infer_dtype dtype);
/* A tuple of dims; -1 becomes None. */
PyObject *tensor_shape(int rank, const int64_t *dim);
/* A tensor of own memory, not cleared. */
struct tensor *tensor_new(enum infer_dtype dtype, int rank, const int64_t *dim);
/* A tensor of memory that a session lends. */
struct tensor *tensor_lent(struct session *session,
                           const struct infer_tensor *view);

/* An array of another library while it is used. */
struct borrowed {
    Py_buffer buffer; /* buffer.obj NULL: none */
    PyObject *capsule;
    int64_t stride[INFER_MAX_RANK];
    struct infer_tensor view;
};

/* Borrows the memory of an object with the buffer protocol or __dlpack__.
 * stream: handed to __dlpack__ of GPU tensors, may be NULL.  -1: an exception
 * is set. */
int borrow(PyObject *object, int writable, PyObject *stream,
           struct borrowed *out);
void give_back(struct borrowed *b); /* also of zeroes */

/* ---- model.c, session.c -------------------------------------------- */

int model_ready(PyObject *module);
int session_ready(PyObject *module);
/* The model, or NULL with an exception if it is closed. */
struct infer_model *model_open(struct model *self);

#endif
