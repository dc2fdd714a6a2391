/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace recorded of its inputs: FOLDER/traced_inputs.pkl of PyTorch 2.1
 * and later is a dictionary {"forward": [tensor, ...]}, whose tensors have
 * types and sizes and no elements.  Frozen and scripted modules have none.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

static enum infer_dtype type_of(const struct pickle *p,
                                const struct pickle_node *tensor)
{
    if (tensor->dtype != INFER_NONE)
        return (enum infer_dtype)tensor->dtype;
    if (tensor->row != PICKLE_NO_ROW)
        return INFER_NONE;
    return (enum infer_dtype)pickle_at(p, tensor->u.item[PICKLE_TENSOR_STORAGE])
        ->dtype;
}

static void take_example(const struct pickle *p,
                         const struct pickle_node *tensor,
                         struct aten_input *in)
{
    const struct pickle_node *size =
        pickle_at(p, tensor->u.item[PICKLE_TENSOR_SIZE]);
    const enum infer_dtype dtype = type_of(p, tensor);

    if (dtype != INFER_NONE) {
        in->dtype = dtype;
        in->assumed = false;
    }
    if (size->count > INFER_MAX_RANK)
        return;
    for (uint32_t i = 0; i < size->count; i++) {
        in->example[i] = pickle_at(p, size->u.item[i])->u.integer;
        if (in->example[i] < 1 || in->example[i] > INT32_MAX)
            return;
    }
    in->example_rank = (int)size->count;
}

/* The tensors of a list that has one for each input, or nothing. */
static void take_examples(const struct pickle *p, struct aten_program *program)
{
    const struct pickle_node *root = pickle_at(p, p->root), *list;
    int64_t at;

    if (root->kind != PICKLE_DICT)
        return;
    at = pickle_find(p, root, "forward");
    list = at < 0 ? NULL : pickle_at(p, (uint32_t)at);
    if (!list || (list->kind != PICKLE_LIST && list->kind != PICKLE_TUPLE) ||
        list->count != (uint32_t)program->n_inputs)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        if (pickle_at(p, list->u.item[i])->kind == PICKLE_TENSOR)
            take_example(p, pickle_at(p, list->u.item[i]), &program->input[i]);
}

int ts_read_traced(struct ts_archive *a, struct aten_program *program,
                   struct infer_error *err)
{
    struct zipfile_data data = {.data = NULL};
    struct infer_error fault;
    struct pickle p;
    int rc = ts_archive_read(a, "traced_inputs.pkl", err, &data);

    if (rc < 0 || !data.data)
        return rc;
    error_clear(&fault);
    rc = pickle_read(data.data, data.bytes, &fault, &p);
    if (rc == 0) {
        take_examples(&p, program);
        pickle_clear(&p);
    } else if (rc == INFER_EMEMORY) {
        error_set(err, rc, "%s", fault.text);
    } else {
        rc = 0; /* values of other kinds: as if there were none */
    }
    zipfile_data_clear(&data);
    return rc;
}
