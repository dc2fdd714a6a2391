/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the weights in what torch.save() was given.
 *
 * People save a state_dict, a dictionary that holds one together with
 * optimiser, epoch and settings, or nested dictionaries of tensors.  The known
 * names of the first two are looked for; whatever is left is flattened, its
 * keys joined by dots.  Of a whole network the attributes _parameters, _buffers
 * and _modules are walked, as its state_dict() would; of TorchScript's, all.
 */
#include "weights/pytorch/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

#define MAX_DEPTH 64 /* of nested containers */
#define MAX_NAME  65536
/* How often the search for a state_dict goes one dictionary deeper. */
#define MAX_DESCENT 4
/* Entries other than tensors that are reported one by one. */
#define MAX_NOTES 256

/* Where checkpoints keep their weights, the likeliest first. */
static const char *const state_keys[] = {
    "state_dict",     "model_state_dict", "model_state",
    "model",          "net_state_dict",   "net",
    "network",        "params_ema",       "params",
    "weights",        "module",           "state_dict_ema",
    "ema_state_dict", "model_ema",        "ema"};

/* What else they keep.  A part stands anywhere in the key; others are the key
 * itself, or are followed by no letter ("step", "steps", "step_count"). */
static const struct {
    const char *word;
    bool part;
    const char *why;
} training_keys[] = {
    {"optimizer", true, "optimiser state"},
    {"optimiser", true, "optimiser state"},
    {"optim", false, "optimiser state"},
    {"opt_state", false, "optimiser state"},
    {"scheduler", true, "learning rate schedule"},
    {"lr_sched", false, "learning rate schedule"},
    {"scaler", false, "loss scaler"},
    {"grad_scaler", false, "loss scaler"},
    {"amp", false, "loss scaler"},
    {"rng_state", true, "random state"},
    {"rng", false, "random state"},
    {"random_state", false, "random state"},
    {"epoch", false, "training progress"},
    {"iter", false, "training progress"},
    {"iteration", false, "training progress"},
    {"global_step", false, "training progress"},
    {"step", false, "training progress"},
    {"best", false, "training progress"},
    {"loss", false, "training progress"},
    {"acc", false, "training progress"},
    {"loops", false, "training progress"},
    {"callbacks", false, "training progress"},
    {"hyper_parameters", false, "settings"},
    {"hparams", false, "settings"},
    {"args", false, "settings"},
    {"config", false, "settings"},
    {"cfg", false, "settings"},
    {"opt", false, "settings"},
};

static bool is_container(const struct pickle_node *n)
{
    return n->kind == PICKLE_DICT || n->kind == PICKLE_LIST ||
           n->kind == PICKLE_TUPLE || n->kind == PICKLE_SET ||
           n->kind == PICKLE_OBJECT;
}

/* Where a torch.nn.Module keeps its tensors, in the order of state_dict(). */
static const char *const module_parts[] = {"_parameters", "_buffers",
                                           "_modules"};
#define MODULE_PARTS 3

/* Attribute of a module, or -1. */
static int64_t module_part(const struct pickle *p, const struct pickle_node *n,
                           const char *part)
{
    if (n->kind != PICKLE_OBJECT || n->count < PICKLE_OBJECT_ITEMS)
        return -1;
    return pickle_find(p, pickle_at(p, n->u.item[PICKLE_OBJECT_STATE]), part);
}

/* True for objects with these three dictionaries. */
static bool is_module(const struct pickle *p, const struct pickle_node *n)
{
    int i;

    for (i = 0; i < MODULE_PARTS; i++) {
        int64_t part = module_part(p, n, module_parts[i]);

        if (part < 0 || pickle_at(p, (uint32_t)part)->kind != PICKLE_DICT)
            return false;
    }
    return true;
}

static bool is_tensor(const struct pickle_node *n)
{
    return n->kind == PICKLE_TENSOR ||
           (n->kind == PICKLE_ARRAY && n->count > 0);
}

/* The attributes of an object of TorchScript, or -1. */
static int64_t script_state(const struct pickle *p, const struct pickle_node *n)
{
    const size_t prefix = strlen(PICKLE_SCRIPT);
    const struct pickle_node *class;

    if (n->kind != PICKLE_OBJECT || n->count < PICKLE_OBJECT_ITEMS)
        return -1;
    class = pickle_at(p, n->u.item[PICKLE_OBJECT_CLASS]);
    return class->count > prefix &&
                   memcmp(class->u.bytes, PICKLE_SCRIPT, prefix) == 0
               ? (int64_t)n->u.item[PICKLE_OBJECT_STATE]
               : -1;
}

/* ---- sizes of subtrees --------------------------------------------- */

/* Walks every node once, whatever refers to it how often. */
struct measure {
    const struct pickle *p;
    unsigned char *seen; /* a byte a node */
    uint32_t *todo;      /* every node goes in at most once */
};

static bool measure_init(struct measure *m, const struct pickle *p)
{
    m->p = p;
    m->seen = calloc(p->count + 1, 1);
    m->todo = malloc((p->count + 1) * sizeof *m->todo);
    return m->seen && m->todo;
}

static void measure_clear(struct measure *m)
{
    free(m->seen);
    free(m->todo);
}

/* Bytes as the tensor's shape says; no storage is touched. */
static size_t tensor_bytes(const struct pickle *p, const struct pickle_node *n)
{
    const struct pickle_node *size, *storage;
    double bytes;
    uint32_t i;

    if (n->kind == PICKLE_ARRAY)
        return pickle_at(p, n->u.item[PICKLE_ARRAY_DATA])->count;
    storage = pickle_at(p, n->u.item[PICKLE_TENSOR_STORAGE]);
    size = pickle_at(p, n->u.item[PICKLE_TENSOR_SIZE]);
    bytes = (double)infer_dtype_size((enum infer_dtype)(
        n->row == PICKLE_NO_ROW ? storage->dtype : n->dtype));
    for (i = 0; i < size->count; i++)
        bytes *= (double)pickle_at(p, size->u.item[i])->u.integer;
    return bytes < 1e15 ? (size_t)bytes : 0;
}

/* Bytes of all tensors at and below a node that were not met before, and how
 * many they are. */
static size_t measure_node(struct measure *m, uint32_t node, size_t *tensors)
{
    size_t todo = 0, bytes = 0;
    uint32_t i;

    *tensors = 0;
    if (!m->seen[node])
        m->todo[todo++] = node;
    m->seen[node] = 1;
    while (todo > 0) {
        const struct pickle_node *n = pickle_at(m->p, m->todo[--todo]);

        if (is_tensor(n)) {
            bytes += tensor_bytes(m->p, n);
            (*tensors)++;
        }
        if (!is_container(n))
            continue;
        for (i = 0; i < n->count; i++) {
            uint32_t item = n->u.item[i];

            if (!m->seen[item]) {
                m->seen[item] = 1;
                m->todo[todo++] = item;
            }
        }
    }
    return bytes;
}

/* 1 or 0, or -1: no memory to find out. */
static int holds_tensors(const struct pickle *p, uint32_t node)
{
    struct measure m;
    const bool room = measure_init(&m, p);
    size_t tensors = 0;

    if (room)
        measure_node(&m, node, &tensors);
    measure_clear(&m);
    return !room ? -1 : tensors > 0;
}

/* ---- finding the state_dict ---------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_training_key(const char *key, const char *word, bool part)
{
    const char *found = strstr(key, word), *end;

    if (!found || part)
        return found != NULL;
    end = found + strlen(word);
    return found == key && (!is_letter(*end) || (*end == 's' && !end[1]));
}

static const char *training_reason(const struct pickle_node *key)
{
    char text[64];
    size_t i;

    if (key->kind != PICKLE_STR || key->count >= sizeof text)
        return NULL;
    memcpy(text, key->u.bytes, key->count);
    text[key->count] = 0;
    for (i = 0; i < sizeof training_keys / sizeof *training_keys; i++)
        if (is_training_key(text, training_keys[i].word, training_keys[i].part))
            return training_keys[i].why;
    return NULL;
}

/* A key as text for reports. */
static void key_text(const struct pickle_node *key, char *text, size_t bytes)
{
    if (key->kind == PICKLE_STR)
        snprintf(text, bytes, "%.*s",
                 (int)(key->count < 200 ? key->count : 200),
                 (const char *)key->u.bytes);
    else if (key->kind == PICKLE_INT)
        snprintf(text, bytes, "%lld", (long long)key->u.integer);
    else
        snprintf(text, bytes, "(no name)");
}

static int note_stripped(struct weights_import *out,
                         const struct pickle_node *key, size_t bytes,
                         const char *why, struct infer_error *err)
{
    char text[256];

    if (out->dict.stripped_count >= MAX_NOTES && bytes == 0)
        return 0;
    key_text(key, text, sizeof text);
    if (weights_dict_strip(&out->dict, text, bytes, why) < 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return 0;
}

/* Reports the entries of a checkpoint other than the chosen dictionary. */
static int strip_siblings(const struct pickle *p, uint32_t parent,
                          uint32_t chosen, struct weights_import *out,
                          struct infer_error *err)
{
    const struct pickle_node *dict = pickle_at(p, parent);
    struct measure m;
    size_t tensors;
    uint32_t i;
    int rc = 0;

    if (!measure_init(&m, p)) {
        measure_clear(&m);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    measure_node(&m, chosen, &tensors); /* what it shares is not stripped */
    for (i = 0; rc == 0 && i + 1 < dict->count; i += 2) {
        const struct pickle_node *key = pickle_at(p, dict->u.item[i]);
        const char *why = training_reason(key);
        size_t bytes;

        if (dict->u.item[i + 1] == chosen)
            continue;
        bytes = measure_node(&m, dict->u.item[i + 1], &tensors);
        if (!why)
            why = tensors ? "tensors beside the chosen weights" : "no tensor";
        rc = note_stripped(out, key, bytes, why, err);
    }
    measure_clear(&m);
    return rc;
}

/* *out: the value of the first of the known keys that holds tensors, or -1. */
static int find_state(const struct pickle *p, uint32_t node,
                      struct infer_error *err, int64_t *out)
{
    size_t i;

    *out = -1;
    for (i = 0; i < sizeof state_keys / sizeof *state_keys; i++) {
        int64_t found = pickle_find(p, pickle_at(p, node), state_keys[i]);
        int holds;

        if (found < 0 || (uint32_t)found == node ||
            !is_container(pickle_at(p, (uint32_t)found)))
            continue;
        holds = holds_tensors(p, (uint32_t)found);
        if (holds < 0)
            return error_set(err, INFER_EMEMORY, "out of memory");
        if (holds) {
            *out = found;
            return 0;
        }
    }
    return 0;
}

/* The dictionary of weights inside a checkpoint; the root itself where it has
 * none of the known keys. */
static int choose_state(const struct pickle *p, struct weights_import *out,
                        struct infer_error *err, uint32_t *chosen)
{
    uint32_t node = p->root;
    int descent, rc;

    for (descent = 0; descent < MAX_DESCENT; descent++) {
        const struct pickle_node *n = pickle_at(p, node);
        int64_t found;

        rc = find_state(p, node, err, &found);
        if (rc < 0)
            return rc;
        if (found >= 0) {
            rc = strip_siblings(p, node, (uint32_t)found, out, err);
            if (rc < 0)
                return rc;
            node = (uint32_t)found;
        } else if ((n->kind == PICKLE_LIST || n->kind == PICKLE_TUPLE) &&
                   n->count == 1 &&
                   pickle_at(p, n->u.item[0])->kind == PICKLE_DICT) {
            node = n->u.item[0]; /* a list of one state_dict */
        } else {
            break;
        }
    }
    *chosen = node;
    return 0;
}

/* ---- flattening ---------------------------------------------------- */

struct leaf {
    char *name;
    uint32_t node;
};

struct flat {
    const struct pickle *p;
    struct weights_import *out;
    struct infer_error *err;
    bool checkpoint; /* the root: training state may stand in it */
    struct measure measure;
    struct leaf *leaf;
    size_t count, capacity;
    size_t name_budget; /* bytes that all names together may still take */
    size_t visits;      /* items that may still be looked at */
    char path[MAX_NAME];
    struct {
        uint32_t node, next;
        size_t path_bytes;
        /* Keys that are left out: the buffers that state_dict() has not. */
        const struct pickle_node *without;
    } frame[MAX_DEPTH];
    int depth;
};

/* Appends ".component" to the path of the innermost frame. */
static int set_path(struct flat *f, size_t base, const struct pickle_node *key,
                    uint32_t index, size_t *out)
{
    char digits[24] = "";
    const unsigned char *text = (const unsigned char *)digits;
    size_t bytes;

    if (key && key->kind == PICKLE_STR) {
        text = key->u.bytes;
        bytes = key->count;
    } else {
        bytes = (size_t)snprintf(digits, sizeof digits, "%lld",
                                 key ? (long long)key->u.integer
                                     : (long long)index);
    }
    if (memchr(text, 0, bytes))
        return error_set(f->err, INFER_EFORMAT,
                         "the name of a tensor has a NUL in it");
    if (bytes + base + 2 > MAX_NAME)
        return error_set(f->err, INFER_EFORMAT,
                         "the name of a tensor is longer than %d bytes",
                         MAX_NAME);
    if (base > 0)
        f->path[base++] = '.';
    memcpy(f->path + base, text, bytes);
    f->path[base + bytes] = 0;
    *out = base + bytes;
    return 0;
}

static int add_leaf(struct flat *f, uint32_t node)
{
    size_t bytes = strlen(f->path) + 1, capacity;
    struct leaf *leaf;

    if (bytes == 1)
        return error_set(f->err, INFER_EFORMAT, "a tensor has an empty name");
    if (bytes > f->name_budget)
        return error_set(f->err, INFER_EMEMORY,
                         "the names of its tensors take too much memory");
    f->name_budget -= bytes;
    if (f->count == f->capacity) {
        capacity = f->capacity ? f->capacity * 2 : 64;
        leaf = realloc(f->leaf, capacity * sizeof *leaf);
        if (!leaf)
            return error_set(f->err, INFER_EMEMORY, "out of memory");
        f->leaf = leaf;
        f->capacity = capacity;
    }
    f->leaf[f->count].name = strdup(f->path);
    if (!f->leaf[f->count].name)
        return error_set(f->err, INFER_EMEMORY, "out of memory");
    f->leaf[f->count++].node = node;
    return 0;
}

static int enter(struct flat *f, uint32_t node, size_t path_bytes)
{
    if (f->depth == MAX_DEPTH)
        return error_set(f->err, INFER_EFORMAT,
                         "containers are nested more than %d deep", MAX_DEPTH);
    f->frame[f->depth].node = node;
    f->frame[f->depth].next = 0;
    f->frame[f->depth].path_bytes = path_bytes;
    f->frame[f->depth].without = NULL;
    f->depth++;
    return 0;
}

/* The next of the three dictionaries of the module in the innermost frame. */
static int enter_part(struct flat *f, const struct pickle_node *module)
{
    int top = f->depth - 1;
    const char *name = module_parts[f->frame[top].next++];
    int64_t part = module_part(f->p, module, name), without = -1;
    int rc = enter(f, (uint32_t)part, f->frame[top].path_bytes);

    if (rc == 0 && strcmp(name, "_buffers") == 0)
        without = module_part(f->p, module, "_non_persistent_buffers_set");
    if (without >= 0 && pickle_at(f->p, (uint32_t)without)->kind == PICKLE_SET)
        f->frame[f->depth - 1].without = pickle_at(f->p, (uint32_t)without);
    return rc;
}

static bool is_left_out(const struct flat *f, const struct pickle_node *key)
{
    const struct pickle_node *set = f->frame[f->depth - 1].without;
    uint32_t i;

    for (i = 0; set && i < set->count; i++) {
        const struct pickle_node *n = pickle_at(f->p, set->u.item[i]);

        if (n->kind == PICKLE_STR && key->kind == PICKLE_STR &&
            n->count == key->count &&
            memcmp(n->u.bytes, key->u.bytes, n->count) == 0)
            return true;
    }
    return false;
}

/* One value of a container, its path set already. */
static int visit(struct flat *f, uint32_t node, const struct pickle_node *key,
                 size_t path_bytes)
{
    const struct pickle_node *n = pickle_at(f->p, node);
    static const struct pickle_node unnamed = {.kind = PICKLE_NONE};

    if (is_tensor(n))
        return add_leaf(f, node);
    if (script_state(f->p, n) >= 0)
        return enter(f, (uint32_t)script_state(f->p, n), path_bytes);
    if (n->kind == PICKLE_OBJECT ? is_module(f->p, n)
                                 : is_container(n) && n->count > 0)
        return enter(f, node, path_bytes);
    /* Deeper ones are settings of settings. */
    if (f->depth == 1)
        return note_stripped(f->out, key ? key : &unnamed, 0, "no tensor",
                             f->err);
    return 0;
}

static int step(struct flat *f)
{
    int top = f->depth - 1;
    const struct pickle_node *n = pickle_at(f->p, f->frame[top].node);
    const struct pickle_node *key = NULL;
    uint32_t i = f->frame[top].next, value;
    size_t path_bytes = 0;
    int rc;

    if (i >= (n->kind == PICKLE_OBJECT ? MODULE_PARTS : n->count)) {
        f->depth--;
        return 0;
    }
    if (f->visits-- == 0)
        return error_set(f->err, INFER_EFORMAT,
                         "its containers refer to each other over and over");
    if (n->kind == PICKLE_OBJECT)
        return enter_part(f, n);
    value = n->u.item[i];
    f->frame[top].next = i + 1;
    if (n->kind == PICKLE_DICT) {
        key = pickle_at(f->p, n->u.item[i]);
        value = n->u.item[i + 1];
        f->frame[top].next = i + 2;
        if (is_left_out(f, key))
            return 0;
        if (key->kind != PICKLE_STR && key->kind != PICKLE_INT) {
            if (is_tensor(pickle_at(f->p, value)))
                return error_set(f->err, INFER_EFORMAT,
                                 "the key of a tensor is neither text nor an "
                                 "integer");
            return 0;
        }
        if (f->checkpoint && top == 0 && is_container(pickle_at(f->p, value)) &&
            training_reason(key)) {
            size_t tensors, bytes = measure_node(&f->measure, value, &tensors);

            return note_stripped(f->out, key, bytes, training_reason(key),
                                 f->err);
        }
    }
    rc = set_path(f, f->frame[top].path_bytes, key, i, &path_bytes);
    return rc < 0 ? rc : visit(f, value, key, path_bytes);
}

static int flatten(struct flat *f, uint32_t root)
{
    size_t i;
    int rc;

    /* Every item once, and as much again for what is shared honestly. */
    f->visits = 1024;
    for (i = 0; i < f->p->count; i++)
        if (is_container(&f->p->node[i]))
            f->visits += MODULE_PARTS + 2 * (size_t)f->p->node[i].count;
    f->name_budget = ((size_t)1 << 20) + 16 * f->p->used;
    if (is_tensor(pickle_at(f->p, root))) {
        strcpy(f->path, "tensor");
        return add_leaf(f, root);
    }
    if (script_state(f->p, pickle_at(f->p, root)) >= 0)
        root = (uint32_t)script_state(f->p, pickle_at(f->p, root));
    if (!is_container(pickle_at(f->p, root)) ||
        (pickle_at(f->p, root)->kind == PICKLE_OBJECT &&
         !is_module(f->p, pickle_at(f->p, root))))
        return 0;
    rc = enter(f, root, 0);
    while (rc == 0 && f->depth > 0)
        rc = step(f);
    return rc;
}

/* ---- into the dictionary ------------------------------------------- */

/* Length of a prefix that wrappers (DataParallel, torch.compile) put before
 * every name; 0 where one name lacks it. */
static size_t common_prefix(const struct flat *f)
{
    static const char *const wrappers[] = {"module.", "_orig_mod."};
    size_t w, i, n, skip = 0;
    bool found = f->count > 0;

    while (found) {
        found = false;
        for (w = 0; w < sizeof wrappers / sizeof *wrappers; w++) {
            n = strlen(wrappers[w]);
            for (i = 0; i < f->count; i++)
                if (strncmp(f->leaf[i].name + skip, wrappers[w], n) != 0 ||
                    f->leaf[i].name[skip + n] == 0)
                    break;
            if (i == f->count) {
                skip += n;
                found = true;
            }
        }
    }
    return skip;
}

static int add_tensors(struct torch_source *source, const struct flat *f,
                       struct weights_import *out, struct infer_error *err)
{
    size_t skip = common_prefix(f), i;
    struct constant **made = calloc(source->pickle->count, sizeof *made);
    int rc = 0;

    if (!made)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; rc == 0 && i < f->count; i++) {
        const char *name = f->leaf[i].name + skip;
        uint32_t node = f->leaf[i].node;
        struct constant *c = made[node];

        /* One tensor under two names (tied weights) stays one constant. */
        if (c)
            c = constant_ref(c);
        else
            rc = torch_tensor(source, node, name, err, &c);
        if (rc == 0) {
            made[node] = c;
            rc = weights_dict_add(&out->dict, name, c, err);
        }
    }
    free(made);
    return rc;
}

int torch_import_state(struct torch_source *source, struct infer_error *err,
                       struct weights_import *out)
{
    struct flat *f = calloc(1, sizeof *f);
    uint32_t state = 0;
    size_t i;
    int rc;

    if (!f)
        return error_set(err, INFER_EMEMORY, "out of memory");
    f->p = source->pickle;
    f->out = out;
    f->err = err;
    rc = choose_state(f->p, out, err, &state);
    f->checkpoint = state == f->p->root;
    if (rc == 0 && !measure_init(&f->measure, f->p))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = flatten(f, state);
    measure_clear(&f->measure);
    if (rc == 0 && f->count == 0)
        rc = error_set(err, INFER_EFORMAT, "the file holds no tensor");
    if (rc == 0)
        rc = add_tensors(source, f, out, err);
    for (i = 0; i < f->count; i++)
        free(f->leaf[i].name);
    free(f->leaf);
    free(f);
    return rc;
}
