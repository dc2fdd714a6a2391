/* SPDX-License-Identifier: Apache-2.0 */
/* Model: a file or bytes that wconv wrote. */
#include "native.h"

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
    {"detect", (PyCFunction)(void (*)(void))model_detect,
     METH_VARARGS | METH_KEYWORDS,
     "detect(outputs, picture, *, score=-1, iou=0.45, task=None, size=None, "
     "batch=1,\n"
     "       entry=0) -> list of dict\n\n"
     "What a detector found, best first, by the outputs of a run.\n\n"
     "outputs: what Session.run() returned.  picture: what preprocess() took, "
     "or its\n"
     "(height, width); boxes are in its pixels.  Each has class, score, left, "
     "top,\n"
     "right, bottom; label, points (x, y, score) and corners (x, y) where the "
     "model\n"
     "has them.  score: least score, -1 for the decoder's.  iou: of boxes of "
     "one\n"
     "class that overlap more the worse is dropped.  task: \"detect:NAME\" "
     "names the\n"
     "decoder.  size: (height, width) of the input where the model leaves them "
     "free.\n"
     "entry: the picture of a batch."},
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
