/* SPDX-License-Identifier: Apache-2.0 */
/* Session: runs a model.  The interpreter's lock is released while it runs;
 * threads that share a session wait for each other. */
#include "native.h"

#include <stdio.h>
#include <string.h>

/* Arrays of a run; more inputs or outputs than this no network here has. */
#define MAX_ARRAYS 64

/* ---- one thread at a time ------------------------------------------ */

/* Takes the session's lock; -1: closed, or in use by this thread (a log that
 * calls back). */
static int hold(struct session *self)
{
    const unsigned long me = PyThread_get_thread_ident();

    if (self->held && self->owner == me) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the session is in use by this thread");
        return -1;
    }
    if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
        PyThreadState *const saved = PyEval_SaveThread();
        PyThread_acquire_lock(self->lock, WAIT_LOCK);
        PyEval_RestoreThread(saved);
    }
    self->owner = me;
    self->held = 1;
    if (!self->session) {
        self->held = 0;
        PyThread_release_lock(self->lock);
        PyErr_SetString(PyExc_ValueError, "the session is closed");
        return -1;
    }
    return 0;
}

static void let_go(struct session *self)
{
    self->held = 0;
    PyThread_release_lock(self->lock);
}

/* ---- opening ------------------------------------------------------- */

static void tell_log(void *user, int level, const char *text)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    const struct session *self = user;
    PyObject *result = PyObject_CallFunction(self->log, "is", level, text);

    if (result)
        Py_DECREF(result);
    else
        PyErr_WriteUnraisable(self->log);
    PyGILState_Release(state);
}

/* The place of a word in a list; -1 with an exception. */
static int find_word(const char *what, const char *word,
                     const char *const *words)
{
    char known[128];

    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    known[0] = '\0';
    for (int i = 0; words[i]; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                 i ? ", " : "", words[i]);
    PyErr_Format(PyExc_ValueError, "%s '%s' is not known (%s)", what, word,
                 known);
    return -1;
}

static const char *const backends[] = {"auto",  "ref", "onednn", "cuda",
                                       "cudnn", "cpu", NULL};
static const char *const precisions[] = {"fp32", "tf32", "fp16",
                                         "bf16", "best", NULL};

/* Reads the keywords into options; the strings live as long as args and kw. */
static int read_options(PyObject *args, PyObject *kw, struct session *self,
                        struct infer_session_options *o)
{
    static char *names[] = {"",           "device",     "backend",
                            "precision",  "threads",    "deterministic",
                            "tune",       "tune_cache", "keep_tensors",
                            "profile",    "max_memory", "max_work",
                            "multiplier", "stream",     "log",
                            NULL};
    const char *backend = "auto", *precision = "fp32";
    unsigned long long max_memory = 0, stream = 0;
    PyObject *model, *log = Py_None;

    infer_session_options_init(o);
    if (!PyArg_ParseTupleAndKeywords(
            args, kw, "O!|$zssipizppKdzKO:Session", names, model_type, &model,
            &o->device, &backend, &precision, &o->threads, &o->deterministic,
            &o->tune, &o->tune_cache, &o->keep_tensors, &o->profile,
            &max_memory, &o->max_work, &o->multiplier, &stream, &log))
        return -1;
    const int b = find_word("backend", backend, backends);
    const int p = b < 0 ? -1 : find_word("precision", precision, precisions);

    if (p < 0)
        return -1;
    o->backend = (enum infer_backend)b;
    o->precision = (enum infer_precision)p;
    o->max_memory = max_memory;
    self->gpu = o->device && strncmp(o->device, "cuda", 4) == 0;
    /* 1 is CUDA's legacy default stream, PyTorch's by default: a run waits for
     * the work in it. */
    if (self->gpu && stream == 0)
        stream = 1;
    o->stream = (void *)(uintptr_t)stream;
    Py_INCREF(model);
    self->model = (struct model *)model;
    if (log != Py_None) {
        Py_INCREF(log);
        self->log = log;
        o->log = tell_log;
        o->log_user = self;
    }
    self->stream = self->gpu ? PyLong_FromUnsignedLongLong(stream) : NULL;
    return self->gpu && !self->stream ? -1 : 0;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    struct session *self = PyObject_New(struct session, session_type);
    struct infer_session_options options;
    struct infer_error err;
    struct infer_model *model;
    int rc;

    (void)type;
    if (!self)
        return NULL;
    memset(&self->session, 0, sizeof *self - offsetof(struct session, session));
    self->lock = PyThread_allocate_lock();
    if (!self->lock) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    if (read_options(args, kw, self, &options) < 0 ||
        (model = model_open(self->model)) == NULL) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    self->n_out = infer_model_output_count(model);
    /* A session in the making is in use: its log cannot run it. */
    self->owner = PyThread_get_thread_ident();
    self->held = 1;
    self->model->users++;
    PyThreadState *const saved = PyEval_SaveThread();
    rc = infer_session_create(model, &options, &err, &self->session);
    PyEval_RestoreThread(saved);
    self->held = 0;
    self->model->users--;
    if (rc < 0) {
        Py_DECREF((PyObject *)self);
        return raise_error(rc, &err);
    }
    return (PyObject *)self;
}

static void session_dealloc(PyObject *object)
{
    struct session *self = (struct session *)object;
    PyTypeObject *type = Py_TYPE(object);

    infer_session_close(&self->session);
    if (self->lock)
        PyThread_free_lock(self->lock);
    Py_XDECREF((PyObject *)self->model);
    Py_XDECREF(self->log);
    Py_XDECREF(self->stream);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int check_lent(const struct session *self)
{
    if (self->lent == 0)
        return 0;
    PyErr_SetString(PyExc_BufferError,
                    "an output that this session lent is still in use: delete "
                    "the arrays made of it, or copy them");
    return -1;
}

static PyObject *session_close(PyObject *object, PyObject *unused)
{
    struct session *self = (struct session *)object;

    (void)unused;
    if (!self->session)
        Py_RETURN_NONE;
    if (check_lent(self) < 0 || hold(self) < 0)
        return NULL;
    infer_session_close(&self->session);
    let_go(self);
    Py_RETURN_NONE;
}

static PyObject *session_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    Py_INCREF(object);
    return object;
}

static PyObject *session_exit(PyObject *object, PyObject *args)
{
    (void)args;
    return session_close(object, NULL);
}

/* ---- runs ---------------------------------------------------------- */

/* What a run borrows.  58 KB: only the first n_in and n_out entries are set. */
struct run {
    struct borrowed in[MAX_ARRAYS], out[MAX_ARRAYS];
    struct infer_tensor in_view[MAX_ARRAYS], out_view[MAX_ARRAYS];
    PyObject *given; /* the caller's outputs as a sequence; NULL: none */
    PyObject *names; /* a copy of a dict of inputs, which holds the names */
    int n_in, n_out, lend;
};

static int add_input(struct session *self, struct run *r, PyObject *array,
                     const char *name)
{
    if (r->n_in == MAX_ARRAYS) {
        PyErr_Format(PyExc_ValueError, "more than %d inputs", MAX_ARRAYS);
        return -1;
    }
    if (borrow(array, 0, self->stream, &r->in[r->n_in]) < 0)
        return -1;
    r->in_view[r->n_in] = r->in[r->n_in].view;
    r->in_view[r->n_in++].name = name;
    return 0;
}

/* inputs: an array, a list or tuple of arrays, or a dict by name. */
static int borrow_inputs(struct session *self, struct run *r, PyObject *inputs)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (PyDict_Check(inputs)) {
        r->names = PyDict_Copy(inputs);
        if (!r->names)
            return -1;
        while (PyDict_Next(r->names, &at, &key, &value)) {
            const char *name = PyUnicode_Check(key)
                                   ? PyUnicode_AsUTF8AndSize(key, NULL)
                                   : NULL;

            if (!name && !PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError,
                                "names of inputs must be strings");
            if (!name || add_input(self, r, value, name) < 0)
                return -1;
        }
        return 0;
    }
    if (!PyList_Check(inputs) && !PyTuple_Check(inputs))
        return add_input(self, r, inputs, NULL);
    for (; at < PySequence_Size(inputs); at++) {
        value = PySequence_GetItem(inputs, at);
        const int rc = value ? add_input(self, r, value, NULL) : -1;

        Py_XDECREF(value); /* the list holds it */
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int is_dense(const struct infer_tensor *t)
{
    int64_t stride = 1;

    for (int i = t->rank - 1; t->stride && i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != stride)
            return 0;
        stride *= t->dim[i];
    }
    return 1;
}

/* Whether the caller's arrays have the types and shapes of the outputs. */
static int check_given(const struct run *r)
{
    for (int i = 0; i < (r->given ? r->n_out : 0); i++) {
        const struct infer_tensor *is = &r->out[i].view;
        const struct infer_tensor *want = &r->out_view[i];
        int same = is->dtype == want->dtype && is->rank == want->rank;

        for (int k = 0; same && k < want->rank; k++)
            same = is->dim[k] == want->dim[k];
        if (!same) {
            PyErr_Format(PyExc_ValueError,
                         "array %d has not the type (%s) and shape of its "
                         "output",
                         i, tensor_dtype_name(want->dtype));
            return -1;
        }
    }
    return 0;
}

/* out: an array or a list or tuple of arrays to write the outputs to. */
static int borrow_outputs(struct session *self, struct run *r, PyObject *out)
{
    if (self->n_out > MAX_ARRAYS) {
        PyErr_Format(PyExc_ValueError, "more than %d outputs", MAX_ARRAYS);
        return -1;
    }
    r->n_out = self->n_out;
    memset(r->out_view, 0, (size_t)r->n_out * sizeof r->out_view[0]);
    if (out == Py_None)
        return 0;
    r->given = PyList_Check(out) || PyTuple_Check(out) ? PySequence_Tuple(out)
                                                       : PyTuple_Pack(1, out);
    if (!r->given)
        return -1;
    if (PyTuple_Size(r->given) > r->n_out) {
        PyErr_Format(PyExc_ValueError, "%zd arrays for %d outputs",
                     PyTuple_Size(r->given), r->n_out);
        r->n_out = 0; /* none is borrowed */
        return -1;
    }
    r->n_out = (int)PyTuple_Size(r->given);
    memset(r->out, 0, (size_t)r->n_out * sizeof r->out[0]);
    for (int i = 0; i < r->n_out; i++) {
        if (borrow(PyTuple_GetItem(r->given, i), 1, self->stream, &r->out[i]) <
            0)
            return -1;
        r->out_view[i] = r->out[i].view;
        if (!is_dense(&r->out_view[i])) {
            PyErr_SetString(PyExc_BufferError,
                            "an output array must be dense and row-major");
            return -1;
        }
    }
    return 0;
}

static void run_clear(struct run *r)
{
    for (int i = 0; i < r->n_in; i++)
        give_back(&r->in[i]);
    for (int i = 0; i < (r->given ? r->n_out : 0); i++)
        give_back(&r->out[i]);
    Py_CLEAR(r->given);
    Py_CLEAR(r->names);
}

static struct tensor *named(struct session *self, struct tensor *t, int index)
{
    struct infer_tensor_info info;

    if (t && infer_session_output(self->session, index, &info) == 0)
        t->name = PyUnicode_FromString(info.name);
    return t;
}

/* The outputs as a list: the caller's arrays, lent ones, or copies. */
static PyObject *list_outputs(struct session *self, const struct run *r,
                              struct tensor **own)
{
    PyObject *list = PyList_New(r->n_out);

    for (int i = 0; list && i < r->n_out; i++) {
        const struct infer_tensor *view = &r->out_view[i];
        PyObject *item;

        if (r->given) {
            item = PyTuple_GetItem(r->given, i);
            Py_INCREF(item);
        } else if (own[i]) {
            item = (PyObject *)named(self, own[i], i);
            own[i] = NULL;
        } else if (r->lend) {
            item = (PyObject *)named(self, tensor_lent(self, view), i);
        } else {
            item = (PyObject *)named(
                self, tensor_new(view->dtype, view->rank, view->dim), i);
            if (item)
                memcpy(((struct tensor *)item)->memory, view->data,
                       view->bytes);
        }
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Results of a GPU go to memory of tensors of the host: makes the plan, which
 * tells their sizes. */
static int make_outputs(struct session *self, struct run *r,
                        struct tensor **own)
{
    struct infer_array in[MAX_ARRAYS];
    struct infer_tensor_info info;
    struct infer_error err;
    int rc;

    for (int i = 0; i < r->n_in; i++) {
        memset(&in[i], 0, sizeof in[i]);
        in[i].name = r->in_view[i].name;
        in[i].dtype = r->in_view[i].dtype;
        in[i].rank = r->in_view[i].rank;
        memcpy(in[i].dim, r->in_view[i].dim, sizeof in[i].dim);
    }
    PyThreadState *const saved = PyEval_SaveThread();
    rc = infer_session_prepare(self->session, in, r->n_in, &err);
    PyEval_RestoreThread(saved);
    if (rc < 0) {
        raise_error(rc, &err);
        return -1;
    }
    for (int i = 0; i < r->n_out; i++) {
        if (infer_session_output(self->session, i, &info) < 0 ||
            (own[i] = tensor_new(info.dtype, info.rank, info.dim)) == NULL)
            return -1;
        r->out_view[i] = own[i]->view;
    }
    return 0;
}

/* The session is held. */
static PyObject *run_held(struct session *self, struct run *r)
{
    struct tensor *own[MAX_ARRAYS];
    struct infer_error err;
    PyObject *list = NULL;
    int rc = 0;

    memset(own, 0, (size_t)r->n_out * sizeof own[0]);
    self->generation++;
    if (self->gpu && !r->given && !r->lend)
        rc = make_outputs(self, r, own);
    if (rc == 0) {
        PyThreadState *const saved = PyEval_SaveThread();
        rc = infer_session_run_tensors(self->session, r->in_view, r->n_in,
                                       r->out_view, r->n_out, &err);
        PyEval_RestoreThread(saved);
        if (rc < 0)
            raise_error(rc, &err);
        else if (check_given(r) == 0)
            list = list_outputs(self, r, own);
    }
    for (int i = 0; i < r->n_out; i++)
        Py_XDECREF((PyObject *)own[i]);
    return list;
}

static PyObject *session_run(PyObject *object, PyObject *args, PyObject *kw)
{
    static char *names[] = {"", "out", "lend", NULL};
    struct session *self = (struct session *)object;
    PyObject *inputs, *out = Py_None, *list = NULL;
    struct run r;

    r.n_in = r.n_out = r.lend = 0;
    r.given = r.names = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$Op:run", names, &inputs,
                                     &out, &r.lend))
        return NULL;
    /* Borrowing may run code of the caller's, which may close the session. */
    if (borrow_inputs(self, &r, inputs) == 0 &&
        borrow_outputs(self, &r, out) == 0 && hold(self) == 0) {
        if (check_lent(self) == 0)
            list = run_held(self, &r);
        let_go(self);
    }
    run_clear(&r);
    return list;
}

/* ---- after a run --------------------------------------------------- */

static PyObject *session_read(PyObject *object, PyObject *args)
{
    struct session *self = (struct session *)object;
    struct infer_array array = {0};
    struct tensor *t = NULL;
    struct infer_error err;
    const char *name;
    int rc;

    if (!PyArg_ParseTuple(args, "s:read", &name) || hold(self) < 0)
        return NULL;
    rc = infer_session_read(self->session, name, &array, &err);
    if (rc == 0)
        t = tensor_new(array.dtype, array.rank, array.dim);
    if (t) {
        array.data = t->memory;
        t->name = PyUnicode_FromString(name);
        rc = infer_session_read(self->session, name, &array, &err);
    }
    let_go(self);
    if (rc < 0) {
        Py_XDECREF((PyObject *)t);
        return raise_error(rc, &err);
    }
    return (PyObject *)t;
}

static PyObject *get_layers(PyObject *object, void *unused)
{
    struct session *self = (struct session *)object;
    struct infer_layer_info info;
    PyObject *list;

    (void)unused;
    if (hold(self) < 0)
        return NULL;
    list = PyList_New(0);
    for (int i = 0; list && infer_session_layer(self->session, i, &info) == 0;
         i++) {
        PyObject *item = Py_BuildValue(
            "{s:s,s:s,s:s,s:s,s:d,s:d,s:d}", "name", info.name, "op", info.op,
            "kernel", info.kernel, "variant", info.variant, "flops", info.flops,
            "bytes", info.bytes, "seconds", info.seconds);

        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    let_go(self);
    return list;
}

/* ---- the type ------------------------------------------------------ */

static PyGetSetDef session_getset[] = {
    {"layers", get_layers, NULL,
     "Steps of the latest plan: name, op, kernel, variant, flops, bytes, and\n"
     "seconds (mean of the runs, with profile=True).",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef session_methods[] = {
    {"run", (PyCFunction)(void (*)(void))session_run,
     METH_VARARGS | METH_KEYWORDS,
     "run(inputs, *, out=None, lend=False) -> list\n\n"
     "Runs the network once.\n\n"
     "inputs: an array, a list of arrays, or a dict of arrays by name; with "
     "the\n"
     "model's shapes (N,C,H,W), any batch where the model leaves it free.\n"
     "Arrays of NumPy and PyTorch on the CPU are read where they lie, those "
     "on\n"
     "the session's GPU too.  out: arrays to write the first outputs to; they\n"
     "are returned.  lend: the outputs stay in the session's memory, on its\n"
     "device, and are valid until its next run."},
    {"read", session_read, METH_VARARGS,
     "read(name) -> Tensor\n\nA tensor of the last run: an output, a weight, "
     "or with\nkeep_tensors=True any other."},
    {"close", session_close, METH_NOARGS, "Frees the session's memory."},
    {"__enter__", session_enter, METH_NOARGS, NULL},
    {"__exit__", session_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_new, session_new},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_getset},
    {Py_tp_doc,
     "Session(model, *, device='cpu', backend='auto', precision='fp32', "
     "threads=0,\n        deterministic=False, tune=1, tune_cache=None, "
     "keep_tensors=False,\n        profile=False, max_memory=0, max_work=0.0, "
     "multiplier=None, stream=0,\n        log=None)\n\n"
     "Runs a model on a device.  infer.h describes each option.  stream: the\n"
     "address of a cudaStream_t (torch.cuda.Stream.cuda_stream); 0: the "
     "default\n"
     "stream.  log: called with a level (1 warning, 2 info, 3 debug) and a "
     "line."},
    {0, NULL},
};

static PyType_Spec session_spec = {"libinfer.Session", sizeof(struct session),
                                   0, Py_TPFLAGS_DEFAULT, session_slots};

int session_ready(PyObject *module)
{
    session_type = (PyTypeObject *)PyType_FromSpec(&session_spec);
    return session_type ? PyModule_AddObjectRef(module, "Session",
                                                (PyObject *)session_type)
                        : -1;
}
