/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of kernels.def, and how a row is asked and prepared. */
#include <config.h>

#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/bn_stats.h"
#include "kernels/input_scale.h"
#include "kernels/kern.h"
#include "kernels/problem.h"
#include "kernels/quant/quant.h"
#include "kernels/rows.h"

static const struct kern_row rows[] = {
#define KERN_ROW KERN_ROW_ENTRY
#include "kernels/kernels.def"
#undef KERN_ROW
};
static const size_t n_rows = sizeof rows / sizeof rows[0];

static const struct kern_row *added;
static size_t n_added;

void kern_rows_add(const struct kern_row *row, size_t n)
{
    added = row;
    n_added = n;
}

size_t kern_row_count(void)
{
    return n_rows + n_added;
}

const struct kern_row *kern_row_at(size_t i)
{
    if (i < n_rows)
        return &rows[i];
    return i - n_rows < n_added ? &added[i - n_rows] : NULL;
}

const struct kern_row *kern_row_find(const char *name)
{
    for (size_t i = 0; i < kern_row_count(); i++)
        if (strcmp(kern_row_at(i)->name, name) == 0)
            return kern_row_at(i);
    return NULL;
}

static int check_row(const struct kern_row *row, const struct kern_problem *p,
                     const struct kern_device *d, struct infer_error *why)
{
    if (row->op != p->op)
        return error_set(why, INFER_EUNSUPPORTED, "%s does not compute %s",
                         row->name, kern_op_name(p->op));
    if (kern_backend_of(row->backend)->device != d->kind)
        return error_set(why, INFER_EUNSUPPORTED, "%s runs on a %s", row->name,
                         d->kind == KERN_CPU ? "GPU only" : "CPU only");
    if (d->kind == KERN_CUDA && d->sm < row->min_sm)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s needs compute capability %d.%d, found %d.%d",
                         row->name, row->min_sm / 10, row->min_sm % 10,
                         d->sm / 10, d->sm % 10);
    if (row->dtype != INFER_NONE && row->dtype != p->in[0].dtype)
        return error_set(why, INFER_EUNSUPPORTED, "%s takes %s, found %s",
                         row->name, infer_dtype_name(row->dtype),
                         infer_dtype_name(p->in[0].dtype));
    if (p->deterministic && (row->flags & KERN_NONDETERMINISTIC))
        return error_set(why, INFER_EUNSUPPORTED, "%s is not deterministic",
                         row->name);
    if (!p->allow_tf32 && (row->flags & KERN_TF32))
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s computes in TF32, which was not asked for",
                         row->name);
    if (bn_stats_of(p) && !(row->flags & KERN_BN_STATS))
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s gives no partial statistics", row->name);
    if (input_scale_of(p) && !(row->flags & KERN_INPUT_SCALE))
        return error_set(why, INFER_EUNSUPPORTED, "%s takes no input scale",
                         row->name);
    if ((quant_of(p) || quant_is_scaled(p)) && !(row->flags & KERN_QUANT))
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s does not compute on integers of 8 bits",
                         row->name);
    if (product_table_of(p) && !(row->flags & KERN_PRODUCT_TABLE))
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s has exact products, a table of products was asked "
                         "for",
                         row->name);
    return 0;
}

bool kern_row_is_invariant(const struct kern_row *row)
{
    return (row->flags & KERN_INVARIANT) || row->backend == INFER_BACKEND_REF;
}

int kern_row_supports(const struct kern_row *row, const struct kern_problem *p,
                      const struct kern_device *d, struct infer_error *why)
{
    int r = check_row(row, p, d, why);

    if (r == 0)
        r = kern_problem_check(p, why);
    if (r == 0)
        r = row->fn->supports(p, d, why);
    return r;
}

int kern_variants(const struct kern_row *row, const struct kern_problem *p,
                  const struct kern_device *d, struct infer_error *err)
{
    return row->fn->variants ? row->fn->variants(p, d, err) : 1;
}

int kern_prepare_variant(const struct kern_row *row,
                         const struct kern_problem *p,
                         const struct kern_device *d, int variant,
                         struct infer_error *err, struct kern_exec *out)
{
    struct kern_exec e;

    memset(&e, 0, sizeof(e));
    e.row = row;
    e.problem = *p;
    e.variant = variant;
    e.flags = row->flags;
    int r = kern_row_supports(row, p, d, err);
    /* Rows with variants know themselves how many there are. */
    if (r == 0 && (variant < 0 || (variant > 0 && !row->fn->variants)))
        r = error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                      row->name, variant);
    if (r == 0 && row->fn->prepare)
        r = row->fn->prepare(&e, d, err);
    /* A prepare() that fails has released what it took. */
    if (r == 0)
        *out = e;
    return r;
}

int kern_prepare(const struct kern_row *row, const struct kern_problem *p,
                 const struct kern_device *d, struct infer_error *err,
                 struct kern_exec *out)
{
    return kern_prepare_variant(row, p, d, 0, err, out);
}

void kern_release(struct kern_exec *e)
{
    if (e->row && e->row->fn->release)
        e->row->fn->release(e);
    memset(e, 0, sizeof(*e));
}
