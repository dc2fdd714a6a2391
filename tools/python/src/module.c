/* SPDX-License-Identifier: Apache-2.0 */
/* The module libinfer._native. */
#include "native.h"

#include <string.h>

PyTypeObject *model_type, *session_type, *tensor_type;

PyObject *tensor_info;
static PyObject *make_error; /* libinfer.errors.make */

PyObject *raise_error(int code, const struct infer_error *err)
{
    const char *text =
        err && err->text[0] ? err->text : infer_status_name(code);
    PyObject *exception = PyObject_CallFunction(make_error, "iss", code,
                                                infer_status_name(code), text);

    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

static PyObject *doctor(PyObject *self, PyObject *unused)
{
    char text[16384];

    (void)self;
    (void)unused;
    infer_doctor(text, sizeof text);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyMethodDef methods[] = {
    {"doctor", doctor, METH_NOARGS,
     "doctor() -> str\n\nDevices, drivers, vendor libraries and backends, one "
     "'name: text' line each."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "libinfer._native",
    .m_doc = "Models, sessions and tensors of libinfer.",
    .m_size = -1,
    .m_methods = methods,
};

static PyObject *import_name(const char *module, const char *name)
{
    PyObject *from = PyImport_ImportModule(module), *found;

    found = from ? PyObject_GetAttrString(from, name) : NULL;
    Py_XDECREF(from);
    return found;
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module;

    make_error = import_name("libinfer.errors", "make");
    tensor_info = import_name("libinfer.info", "TensorInfo");
    module = make_error && tensor_info ? PyModule_Create(&definition) : NULL;
    if (!module)
        return NULL;
    if (tensor_ready(module) < 0 || model_ready(module) < 0 ||
        session_ready(module) < 0 ||
        PyModule_AddStringConstant(module, "version", infer_version()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
