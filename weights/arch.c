/* SPDX-License-Identifier: Apache-2.0 */
/* The table of architectures and how one is opened; see arch.h. */
#include "weights/arch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/graph/model_file.h"

typedef int build_fn(const struct arch_row *row, int classes,
                     struct infer_error *err, struct graph **out);

build_fn arch_alexnet, arch_alexnet_mnist, arch_convnext, arch_deeplabv3,
    arch_densenet, arch_efficientnet, arch_efficientnet_v2, arch_fcn,
    arch_googlenet, arch_inception_v3, arch_lenet5, arch_lraspp, arch_mlp,
    arch_mnasnet, arch_mobilenet_v2, arch_mobilenet_v3, arch_regnet,
    arch_resnet, arch_resnet_option_a, arch_s3d, arch_shufflenet_v2,
    arch_squeezenet, arch_timm, arch_vgg, arch_vgg_mnist, arch_video_resnet;

static const struct arch_row rows[] = {
#define ARCH(name, build, variant, description)                                \
    {name, description, build, variant},
#include "weights/archs.def"
#undef ARCH
};

size_t arch_count(void)
{
    return sizeof(rows) / sizeof(rows[0]);
}

const struct arch_row *arch_at(size_t i)
{
    return i < arch_count() ? &rows[i] : NULL;
}

const struct arch_row *arch_find(const char *name)
{
    for (size_t i = 0; i < arch_count(); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Name of the weight of the last dense or conv node, which is the classifier;
 * NULL where there is none. */
static const char *classifier_weight(const struct graph *g)
{
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const struct graph_node *node = &g->node[n];

        if ((node->op == GRAPH_DENSE || node->op == GRAPH_CONV) &&
            node->n_in > 1 && node->in[1] >= 0)
            return g->value[node->in[1]].name;
    }
    return NULL;
}

/* Outputs of the classifier's weight in either layout, K,C.. or ..C,K, where
 * they differ from the graph's; else 0. */
static int class_count(const struct graph_value *w, const struct constant *c)
{
    int64_t k;

    if (c->rank < 2)
        return 0;
    k = c->dim[1] != w->dim[1] && c->dim[c->rank - 2] == w->dim[1]
            ? c->dim[c->rank - 1]
            : c->dim[0];
    return k < 1 || k > INT_MAX || k == w->dim[0] ? 0 : (int)k;
}

/* Classes of the dictionary's classifier where they are not the graph's; else
 * 0. */
static int other_class_count(const struct graph *g,
                             const struct weights_dict *dict)
{
    const char *name = classifier_weight(g);
    const struct constant *c = NULL;
    int value;

    if (!name || !dict)
        return 0;
    value = graph_find_value(g, name);
    for (size_t i = 0; i < dict->count && !c; i++) {
        const char *key = dict->entry[i].name;
        size_t longer = strlen(key), length = strlen(name);

        /* The key may carry a prefix such as "module.". */
        if (longer >= length && strcmp(key + longer - length, name) == 0 &&
            (longer == length || key[longer - length - 1] == '.'))
            c = dict->entry[i].value;
    }
    return c && value >= 0 ? class_count(&g->value[value], c) : 0;
}

static int build(const struct arch_row *row, const struct weights_dict *dict,
                 struct infer_error *err, struct graph **out)
{
    struct graph *g;
    int rc = row->build(row, 0, err, &g);
    int classes;

    if (rc < 0)
        return rc;
    classes = other_class_count(g, dict);
    if (classes > 0) {
        graph_free(g);
        rc = row->build(row, classes, err, &g);
    }
    if (rc == 0)
        *out = g;
    return rc;
}

/* Whether every part of the word stands somewhere in the name. */
static bool has_parts(const char *name, const char *word)
{
    static const char between[] = "-_";
    const size_t bytes = strlen(name);
    size_t n;

    word += strspn(word, between);
    if (*word == '\0')
        return false;
    for (; *word != '\0'; word += n, word += strspn(word, between)) {
        n = strcspn(word, between);
        if (memmem(name, bytes, word, n) == NULL)
            return false;
    }
    return true;
}

/* A name that has all of the word is what was meant, more likely than one with
 * another letter: cifar-resnet20 is resnet20-cifar, and not resnet50.  NULL
 * where more than a third of the letters are others. */
static const char *nearest(const char *word)
{
    size_t least = strlen(word) / 3 + 2;
    const char *best = NULL;

    for (size_t i = 0; i < arch_count(); i++)
        if (has_parts(rows[i].name, word))
            return rows[i].name;
    for (size_t i = 0; i < arch_count(); i++) {
        const size_t distance = text_distance(word, rows[i].name);

        if (distance < least) {
            least = distance;
            best = rows[i].name;
        }
    }
    return best;
}

int arch_open(const char *name_or_path, const struct weights_dict *dict,
              struct infer_error *err, struct graph **out)
{
    const struct arch_row *row = arch_find(name_or_path);
    const char *near;
    struct stat st;

    if (row)
        return build(row, dict, err, out);
    if (stat(name_or_path, &st) != 0) {
        near = nearest(name_or_path);
        return error_set(err, INFER_EARGUMENT,
                         "architecture '%s' is neither a built-in name nor a "
                         "file (%s%s)",
                         name_or_path,
                         near ? "nearest built-in name: "
                              : "wconv --list-archs has the names",
                         near ? near : "");
    }
    return model_file_read_arch(name_or_path, err, out);
}
