/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole untrusted file into private memory.  One descriptor, no
 * mapping: a file that changes meanwhile can give an error but not a fault. */
#include "weights/weights.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/memory_size.h"

int weights_file_read(const char *path, uint64_t max_bytes,
                      struct infer_error *err, struct weights_file *out)
{
    struct blob *blob;
    size_t bytes;
    void *data;
    int rc;

    if (max_bytes == 0)
        max_bytes = memory_size() / 2;
    rc = file_read_all(path, max_bytes, err, &data, &bytes);
    if (rc < 0)
        return rc;
    blob = blob_new(data, bytes);
    if (!blob)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    out->path = path;
    out->blob = blob;
    return 0;
}

bool weights_is_text(const char *path)
{
    unsigned char head[4096];
    struct stat st;
    FILE *f =
        stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    size_t i = 0;

    while (i < n && (head[i] >= ' ' || isspace(head[i])))
        i++;
    if (f)
        fclose(f);
    return n > 0 && i == n;
}

void weights_file_close(struct weights_file *file)
{
    blob_unref(file->blob);
    *file = (struct weights_file){0};
}
