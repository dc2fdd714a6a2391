/* SPDX-License-Identifier: Apache-2.0 */
/* The second file of a network, and the report of layers that are not
 * supported. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "weights/layers/layers.h"

/* "a/net.cfg" and ".weights": "a/net.weights"; NULL when out of memory. */
static char *path_beside(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = strlen(path);
    char *made;

    if (dot != NULL && dot != path && (slash == NULL || dot > slash + 1))
        stem = (size_t)(dot - path);
    made = malloc(stem + strlen(ending) + 1);
    if (made != NULL) {
        memcpy(made, path, stem);
        strcpy(made + stem, ending);
    }
    return made;
}

/* Reads the file whose path is that of `path` with another ending: "a/net.cfg"
 * and ".weights" give "a/net.weights".  1: read; 0: there is none; negative:
 * an error. */
static int read_beside(const char *path, const char *ending,
                       struct weights_import *import, struct infer_error *err,
                       struct weights_file *out)
{
    struct stat st;
    char *beside;
    int rc;

    memset(out, 0, sizeof(*out));
    if (path == NULL)
        return 0;
    beside = path_beside(path, ending);
    if (beside == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (strcmp(beside, path) == 0 ||
        (lstat(beside, &st) < 0 && errno == ENOENT)) {
        free(beside);
        return 0;
    }
    if (lstat(beside, &st) == 0 && S_ISLNK(st.st_mode))
        rc = error_set(err, INFER_EFORMAT,
                       "%s is a symbolic link; put the file itself there",
                       beside);
    else
        rc = weights_file_read(beside, 0, err, out);
    if (rc < 0) {
        free(beside);
        return rc;
    }
    free(import->second);
    import->second = beside;
    out->path = beside;
    import->bytes += out->blob->bytes;
    return 1;
}

/* The same for the file that --arch names. */
static int read_arch(const struct weights_options *options,
                     struct weights_import *import, struct infer_error *err,
                     struct weights_file *out)
{
    int rc;

    memset(out, 0, sizeof(*out));
    if (options == NULL || options->arch == NULL)
        return 0;
    rc = weights_file_read(options->arch, 0, err, out);
    if (rc < 0)
        return rc;
    import->bytes += out->blob->bytes;
    import->arch_read = true;
    return 1;
}

int layers_read_pair(const struct layers_pair *pair, struct weights_file *file,
                     bool is_network, const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    struct weights_file other = {0};
    int rc;

    if (is_network) {
        rc = read_beside(file->path, pair->weights, out, err, &other);
        if (rc >= 0)
            rc = pair->read(file, rc > 0 ? &other : NULL, options, err, out);
    } else {
        rc = read_arch(options, out, err, &other);
        if (rc == 0)
            rc = read_beside(file->path, pair->network, out, err, &other);
        if (rc == 0)
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "weights without their network: put the %s beside "
                           "them, by the same name, or name it with --arch",
                           pair->network);
        else if (rc > 0)
            rc = pair->read(&other, file, options, err, out);
    }
    weights_file_close(&other);
    return rc;
}

void layers_refuse(struct layers_refused *r, struct layers_text kind)
{
    int i;

    for (i = 0; i < r->count; i++)
        if (r->item[i].kind.bytes == kind.bytes &&
            memcmp(r->item[i].kind.data, kind.data, kind.bytes) == 0) {
            r->item[i].count++;
            return;
        }
    if (r->count == LAYERS_MAX_REFUSED) {
        r->more++;
        return;
    }
    r->item[r->count].kind = kind;
    r->item[r->count++].count = 1;
}

int layers_refused_report(const struct layers_refused *r,
                          struct infer_error *err)
{
    int i;

    if (r->count == 0)
        return 0;
    error_clear(err);
    for (i = 0; i < r->count; i++)
        error_add(err, INFER_EUNSUPPORTED,
                  "OP %.*s: not supported (%d layer%s)",
                  LAYERS_SHOW(r->item[i].kind), r->item[i].count,
                  r->item[i].count == 1 ? "" : "s");
    if (r->more > 0)
        error_add(err, INFER_EUNSUPPORTED,
                  "and %d layers of other kinds that are not supported",
                  r->more);
    return INFER_EUNSUPPORTED;
}
