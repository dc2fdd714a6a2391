/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a data set of any format. */
#include "tools/train/data/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"

char *data_join(const char *folder, const char *name)
{
    const size_t n = strlen(folder), m = strlen(name);
    char *path = malloc(n + m + 2);

    if (!path)
        return NULL;
    snprintf(path, n + m + 2, "%s/%s", folder, name);
    return path;
}

char *data_find(const char *folder, const char *name)
{
    static const char *const ends[] = {"", ".gz"};
    char with_end[256];
    struct stat st;

    for (int i = 0; i < 2; i++) {
        char *path;

        if (strlen(name) + 4 > sizeof(with_end))
            return NULL;
        strcpy(with_end, name);
        strcat(with_end, ends[i]);
        path = data_join(folder, with_end);
        if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return path;
        free(path);
    }
    return NULL;
}

/* ---- sets ---------------------------------------------------------- */

int data_check_labels(const struct data_set *set, struct infer_error *err)
{
    for (int64_t i = 0; i < set->count; i++)
        if (set->label[i] < 0 || set->label[i] >= set->classes)
            return error_set(err, INFER_EFORMAT,
                             "%s: label %lld is %d, but there are %d classes: "
                             "it is damaged, or of another set",
                             set->path, (long long)i, (int)set->label[i],
                             set->classes);
    return 0;
}

static int absent(const char *path, enum data_part part,
                  struct infer_error *err, struct data_set *out)
{
    (void)error_set(err, INFER_EFORMAT,
                    "%s: holds no %s pictures: neither idx files "
                    "(%s-images-idx3-ubyte and labels, .gz or not), nor "
                    "CIFAR-10 batches (%s.bin), nor folders of pictures "
                    "(%s/CLASS/*.png or .jpg)",
                    path, part == DATA_TRAIN ? "training" : "test",
                    part == DATA_TRAIN ? "train" : "t10k",
                    part == DATA_TRAIN ? "data_batch_1" : "test_batch",
                    part == DATA_TRAIN ? "train" : "test");
    data_close(out);
    return DATA_ABSENT;
}

int data_open(const char *path, enum data_part part,
              const struct data_wish *wish, struct infer_error *err,
              struct data_set *out)
{
    struct stat st;
    int rc;

    memset(out, 0, sizeof(*out));
    if (stat(path, &st) != 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    out->path = strdup(path);
    if (!out->path)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = data_open_idx(path, part, err, out);
    if (rc == 0)
        rc = data_open_cifar(path, part, err, out);
    if (rc == 0)
        rc = data_open_folder(path, part, wish, err, out);
    if (rc == 0)
        rc = absent(path, part, err, out);
    else if (rc > 0)
        rc = data_check_labels(out, err);
    if (rc == 0 && out->count == 0)
        rc = error_set(err, INFER_EFORMAT, "%s: holds no pictures", path);
    if (rc < 0)
        data_close(out);
    return rc;
}

void data_close(struct data_set *set)
{
    for (int64_t i = 0; set->file && i < set->count; i++)
        free(set->file[i]);
    for (int i = 0; set->class_name && i < set->classes; i++)
        free(set->class_name[i]);
    free(set->file);
    free(set->class_name);
    free(set->decoded);
    free(set->pixels);
    free(set->label);
    free(set->path);
    memset(set, 0, sizeof(*set));
}

static int find(char *const *label, int labels, const char *name)
{
    for (int i = 0; i < labels; i++)
        if (strcmp(label[i], name) == 0)
            return i;
    return -1;
}

int data_number_by(struct data_set *set, char *const *label, int labels,
                   struct infer_error *err)
{
    const char *other = NULL;
    int known = 0;

    for (int i = 0; set->class_name && i < set->classes; i++)
        if (find(label, labels, set->class_name[i]) >= 0)
            known++;
        else
            other = set->class_name[i];
    if (known == 0)
        return 0;
    if (other)
        return error_set(err, INFER_EFORMAT,
                         "%s: folder '%s' is no label of the network, as %d "
                         "other folders are",
                         set->path, other, known);
    for (int64_t i = 0; i < set->count; i++)
        set->label[i] = find(label, labels, set->class_name[set->label[i]]);
    for (int i = 0; i < set->classes; i++)
        free(set->class_name[i]);
    free(set->class_name);
    set->class_name = NULL;
    set->classes = labels;
    return 0;
}

int data_picture(struct data_set *set, int64_t i, uint8_t *scratch,
                 struct infer_error *err, const uint8_t **out)
{
    const size_t bytes = data_bytes(set);
    uint8_t *home = set->pixels ? set->pixels + (size_t)i * bytes : scratch;
    unsigned char state = DATA_NOT_YET;
    int rc;

    *out = home;
    if (!set->file || (set->keep && atomic_load(&set->decoded[i]) == DATA_KEPT))
        return 0;
    *out = scratch;
    rc = data_decode(set, set->file[i], scratch, err);
    if (rc == 0 && set->keep &&
        atomic_compare_exchange_strong(&set->decoded[i], &state,
                                       DATA_BEING_KEPT)) {
        memcpy(home, scratch, bytes);
        atomic_store(&set->decoded[i], DATA_KEPT);
    }
    return rc;
}
