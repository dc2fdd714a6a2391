/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of the program as nodes of the graph, and what the importer knows
 * of their results. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

/* ---- types --------------------------------------------------------- */

/* In the order of PyTorch's numbers. */
static const unsigned char types[] = {
    [0] = INFER_U8,   [1] = INFER_I8,    [2] = INFER_I16,   [3] = INFER_I32,
    [4] = INFER_I64,  [5] = INFER_F16,   [6] = INFER_F32,   [7] = INFER_F64,
    [8] = INFER_NONE, [11] = INFER_BOOL, [15] = INFER_BF16, [27] = INFER_U16,
    [28] = INFER_U32, [29] = INFER_U64};

enum infer_dtype ts_type_of(int64_t number)
{
    return number >= 0 && number < (int64_t)sizeof types
               ? (enum infer_dtype)types[number]
               : INFER_NONE;
}

int64_t ts_type_number(enum infer_dtype dtype)
{
    for (size_t i = 0; i < sizeof types; i++)
        if (types[i] == dtype && dtype != INFER_NONE)
            return (int64_t)i;
    return 6;
}

/* ---- what the importer knows --------------------------------------- */

/* The machine stops without an error of its own where it needs what a refused
 * node gives: that refusal is the reason. */
static int stop(struct ts_run *r)
{
    r->failed = true;
    if (r->result == 0)
        r->result = INFER_EUNSUPPORTED;
    return r->result;
}

/* An error of the importer's functions, which is at this line. */
static int take_error(struct ts_run *r)
{
    const int rc = r->im->rc;

    r->im->rc = 0;
    error_prefix(r->err, "%s:%u", r->file ? r->file->path : "code", r->line);
    return rc;
}

/* The name that a tensor has now: what was last written into it. */
static int now_of(struct ts_run *r, const struct ts_value *v,
                  struct pb_span *out)
{
    int i;

    if (!ts_is_value(v))
        return ts_fail(r, INFER_EUNSUPPORTED, "a tensor is missing");
    if (!r->im)
        return stop(r);
    if (aten_alias_read(r->im, v->text, out) < 0)
        return take_error(r);
    i = onnx_value_find(r->im, *out);
    if (i < 0 || r->im->value[i].state == ONNX_FAILED ||
        r->im->value[i].state == ONNX_UNKNOWN)
        return stop(r);
    return 0;
}

int ts_rank(struct ts_run *r, const struct ts_value *tensor, int *out)
{
    int64_t stored[INFER_MAX_RANK];
    struct pb_span now;
    int rc;

    if (!r->im && (*out = ts_stored_sizes(r, tensor, stored)) >= 0)
        return 0;
    if ((rc = now_of(r, tensor, &now)) < 0)
        return rc;
    *out = aten_rank(r->im, now);
    return r->im->rc < 0 ? take_error(r) : 0;
}

int ts_dim(struct ts_run *r, const struct ts_value *tensor, int64_t d,
           int64_t *out)
{
    int64_t stored[INFER_MAX_RANK];
    const int rank = r->im ? -1 : ts_stored_sizes(r, tensor, stored);
    struct pb_span now;
    int rc;

    if (d >= -rank && d < rank) {
        *out = stored[d < 0 ? d + rank : d];
        return 0;
    }
    if ((rc = now_of(r, tensor, &now)) < 0)
        return rc;
    if (d < -INFER_MAX_RANK || d > INFER_MAX_RANK)
        return ts_fail(r, INFER_EFORMAT, "dimension %lld", (long long)d);
    *out = aten_dim(r->im, now, (int)d);
    return r->im->rc < 0 ? take_error(r) : 0;
}

int ts_dtype(struct ts_run *r, const struct ts_value *tensor,
             enum infer_dtype *out)
{
    struct pb_span now;
    int rc = now_of(r, tensor, &now);

    if (rc < 0)
        return rc;
    *out = aten_type_of(r->im, now);
    return r->im->rc < 0 ? take_error(r) : 0;
}

int ts_assumed(struct ts_run *r, const struct ts_value *tensor,
               struct pb_span *out)
{
    const struct pb_span *from;
    struct pb_span now;
    int rc = now_of(r, tensor, &now);

    *out = (struct pb_span){NULL, 0};
    if (rc < 0)
        return rc;
    from = aten_assumed(r->im, now);
    if (from)
        *out = *from;
    return r->im->rc < 0 ? take_error(r) : 0;
}

int ts_type_unknown(struct ts_run *r, struct pb_span input)
{
    return ts_fail(r, INFER_EUNSUPPORTED,
                   "a decision by the type of input '%.*s', which the file "
                   "does not state: --input-type=%.*s:F32 (or BOOL, I64) does",
                   PB_TEXT(input, 64), PB_TEXT(input, 64));
}

/* The one element of a value at each probe, or NULL. */
static int elements(struct ts_run *r, const struct ts_value *v,
                    const struct onnx_small *const **out)
{
    struct pb_span now;
    int rc = now_of(r, v, &now);

    *out = NULL;
    if (rc < 0)
        return rc;
    if (onnx_named_small(r->im, now, out) < 0)
        return take_error(r);
    /* How many entries a tensor has that is computed at run time. */
    if (r->im->value[onnx_value_find(r->im, now)].sized)
        *out = NULL;
    for (int p = 0; *out && p < r->im->probes; p++)
        if ((*out)[p]->count != 1) {
            *out = NULL;
            break;
        }
    return 0;
}

static struct ts_value element(const struct onnx_small *s)
{
    if (s->dtype == INFER_BOOL)
        return ts_bool(s->i ? s->i[0] != 0 : s->d[0] != 0);
    return s->i ? ts_int(s->i[0]) : ts_float(s->d[0]);
}

int ts_settle(struct ts_run *r, struct ts_value *v)
{
    const struct onnx_small *const *small;
    int rc;

    if (v->kind != TSV_NUMBER)
        return 0;
    rc = elements(r, v, &small);
    if (rc == 0 && small && onnx_small_is_fixed(r->im, small))
        *v = element(small[0]);
    return rc;
}

int ts_number(struct ts_run *r, const struct ts_value *tensor,
              struct ts_value *out)
{
    *out = *tensor;
    if (ts_is_known(tensor))
        return 0;
    if (!ts_is_value(tensor))
        return ts_fail(r, INFER_EUNSUPPORTED, "a number is missing");
    out->kind = TSV_NUMBER;
    out->node = 0;
    return ts_settle(r, out);
}

int ts_truth(struct ts_run *r, const struct ts_value *v, bool *known, bool *out)
{
    const struct onnx_small *const *small = NULL;
    bool same = true;
    int rc = 0;

    if (known)
        *known = true;
    if (v->assumed) {
        if (!known)
            return ts_type_unknown(r, v->text);
        *known = false;
        return 0;
    }
    if (ts_is_known(v)) {
        *out = v->kind == TSV_FLOAT ? v->f < 0 || v->f > 0 || v->f != v->f
                                    : v->i != 0;
        return 0;
    }
    if (!ts_is_value(v))
        return ts_fail(r, INFER_EUNSUPPORTED, "a condition that is no number");
    rc = elements(r, v, &small);
    if (rc < 0)
        return rc;
    for (int p = 0; small && p < r->im->probes; p++) {
        const struct ts_value e = element(small[p]);
        const bool truth = ts_real(&e) < 0 || ts_real(&e) > 0;

        same &= p == 0 || truth == *out;
        *out = truth;
    }
    if (small && same)
        return 0;
    if (known) {
        *known = false;
        return 0;
    }
    return ts_fail(r, INFER_EUNSUPPORTED,
                   small ? "a condition that depends on a free size: "
                           "--input-shape fixes it"
                         : "a condition that depends on data");
}

/* ---- operators ----------------------------------------------------- */

/* Whether parameter i of the row is the type of the result. */
static bool is_dtype(const struct aten_op *op, int i, const struct ts_arg *arg)
{
    const char *p = op ? op->parameters : "";

    if (arg->name.bytes)
        return pb_span_is(arg->name, "dtype");
    for (; i > 0 && *p; i--) {
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    return i == 0 && strncmp(p, "dtype", 5) == 0 && (p[5] == 0 || p[5] == ' ');
}

static int to_arg(struct ts_run *r, const struct ts_value *v, int depth,
                  struct aten_arg *out)
{
    int rc = 0;

    switch (v->kind) {
    case TSV_INT:
    case TSV_BOOL:
        out->kind = v->kind == TSV_INT ? ATEN_INT : ATEN_BOOL;
        out->i = v->i;
        return 0;
    case TSV_FLOAT:
        out->kind = ATEN_FLOAT;
        out->f = v->f;
        return 0;
    case TSV_TEXT:
        out->kind = ATEN_TEXT;
        out->text = v->text;
        return 0;
    case TSV_TENSOR:
    case TSV_NUMBER:
        out->kind = ATEN_VALUE;
        out->text = v->text;
        return 0;
    case TSV_LIST:
    case TSV_TUPLE:
        break;
    case TSV_NONE:
    case TSV_DEVICE:
        out->kind = ATEN_NONE;
        return 0;
    case TSV_UNSET:
    case TSV_DICT:
    case TSV_OBJECT:
    case TSV_NAMED:
    case TSV_OTHER:
        out->kind = ATEN_OTHER;
        return 0;
    }
    if (depth == ATEN_MAX_DEPTH || v->list->n > ATEN_MAX_ARGS)
        return ts_fail(r, INFER_EUNSUPPORTED, "a list is too long or too deep");
    out->kind = ATEN_LIST;
    out->n = v->list->n;
    out->item = onnx_alloc(r->arena, (size_t)(out->n + 1) * sizeof *out->item);
    if (!out->item)
        return ts_no_memory(r);
    rc = ts_step(r, (size_t)out->n);
    for (int i = 0; i < out->n && rc == 0; i++)
        rc = to_arg(r, &v->list->item[i], depth + 1, &out->item[i]);
    return rc;
}

static int make_args(struct ts_run *r, int n, const struct ts_arg *arg,
                     struct aten_node *node)
{
    bool written;
    const struct aten_op *op = aten_op_of(node->op, &written);
    int rc = 0;

    node->arg = onnx_alloc(r->arena, (size_t)(n + 1) * sizeof *node->arg);
    if (!node->arg)
        return ts_no_memory(r);
    node->n_args = n;
    for (int i = 0; i < n && rc == 0; i++) {
        struct aten_arg *a = &node->arg[i];

        rc = to_arg(r, &arg[i].value, 0, a);
        a->name = arg[i].name;
        if (a->kind == ATEN_INT && is_dtype(op, i, &arg[i])) {
            a->kind = ATEN_TYPE;
            a->i = ts_type_of(a->i);
        }
    }
    return rc;
}

/* A name for a result that no tensor has: OPERATOR_number. */
static int fresh(struct ts_run *r, struct pb_span op, struct pb_span *out)
{
    char digits[16];
    struct pb_span number = {(unsigned char *)digits, 0};
    int rc;

    do {
        number.bytes =
            (size_t)snprintf(digits, sizeof digits, "%u", r->names++);
        rc = ts_join(r, op, "_", number, out);
    } while (rc == 0 && r->im && onnx_value_find(r->im, *out) >= 0);
    return rc;
}

static int make_outputs(struct ts_run *r, int n_out, const bool *unread,
                        struct aten_node *node, struct ts_value *out)
{
    int rc = 0;

    node->n_out = n_out;
    node->out = onnx_alloc(r->arena, (size_t)(n_out + 1) * sizeof *node->out);
    if (!node->out)
        return ts_no_memory(r);
    for (int i = 0; i < n_out && rc == 0; i++) {
        out[i] = (struct ts_value){.kind = TSV_OTHER};
        if (unread && unread[i])
            continue;
        rc = fresh(r, node->op, &node->out[i]);
        out[i] = (struct ts_value){.kind = TSV_TENSOR, .text = node->out[i]};
        if (rc == 0 && r->im && aten_alias_mark(r->im, node->out[i]) < 0)
            rc = take_error(r);
    }
    return rc;
}

/* How many operators the program may have: small files cannot make large
 * graphs. */
static int most_told(const struct ts_run *r)
{
    const size_t kib = r->archive->zip.blob->bytes >> 10;

    return kib < TS_MAX_TOLD - TS_SMALL_TOLD ? TS_SMALL_TOLD + (int)kib
                                             : TS_MAX_TOLD;
}

int ts_tell(struct ts_run *r, struct pb_span op, int n,
            const struct ts_arg *arg, int n_out, const bool *unread,
            struct ts_value *out)
{
    struct aten_node *node = onnx_alloc(r->arena, sizeof *node);
    char label[512];
    int rc;

    if (!node)
        return ts_no_memory(r);
    if (++r->told > most_told(r))
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "more than %d operators: loops of a program are written "
                       "out",
                       most_told(r));
    node->op = op;
    if ((rc = make_args(r, n, arg, node)) < 0 ||
        (rc = make_outputs(r, n_out, unread, node, out)) < 0)
        return rc;
    if (!r->im) {
        ts_guess_step(r, op, n, arg, out);
        return r->guess->known ? stop(r) : 0;
    }
    snprintf(label, sizeof label, "%s:%u: torch.%.*s",
             r->file ? r->file->path : "code", r->line, PB_TEXT(op, 64));
    return aten_tell(r->im, node, label, &r->result);
}

int ts_tell1(struct ts_run *r, const char *op, int n,
             const struct ts_value *arg, struct ts_value *out)
{
    const struct pb_span name = {(unsigned char *)op, strlen(op)};
    struct ts_arg list[8] = {{.name = {NULL, 0}}};

    for (int i = 0; i < n && i < 8; i++)
        list[i].value = arg[i];
    return ts_tell(r, name, n, list, 1, NULL, out);
}
