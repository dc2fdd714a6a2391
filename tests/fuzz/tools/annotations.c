/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: COCO's annotations, and the figures of a detector that finds
 * each box of them, twice and in every other category. */
#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz.h"
#include "tools/infer/coco_file.h"

#define FOUND 64

/* Each index that leaves the reader lies in its list, and each figure is a
 * share or -1. */
static void evaluate(const struct coco_file *f)
{
    const int categories = (int)f->categories.count;
    double *share = malloc((size_t)categories * sizeof *share);
    struct ap_found found[FOUND];
    struct ap_result result;
    struct infer_error err;
    size_t n = 0;

    for (size_t i = 0; i < f->n_truth; i++)
        if (f->truth[i].image < 0 || f->truth[i].category < 0 ||
            (size_t)f->truth[i].image >= f->images.count ||
            f->truth[i].category >= categories)
            abort();
    for (size_t i = 0; n < FOUND && i / 2 < f->n_truth; i++, n++) {
        const struct ap_truth *t = &f->truth[i / 2];

        found[n] = (struct ap_found){.image = t->image,
                                     .category = (int)(i % 2) * t->category,
                                     .score = (double)(i % 7) / 7};
        memcpy(found[n].box, t->box, sizeof t->box);
    }
    if (share && average_precision(f->truth, f->n_truth, found, n, categories,
                                   &err, &result, share) == 0) {
        if (!(result.ap50 >= -1 && result.ap50 <= 1))
            abort();
        for (int i = 0; i < categories; i++)
            if (!(share[i] >= -1 && share[i] <= 1))
                abort();
    }
    free(share);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct infer_error err;
    struct coco_file f;
    char path[128];

    folder_open();
    folder_put("a.json", data, size);
    if (fuzz_tell(coco_file_read(folder_file("a.json", path), &err, &f), &err,
                  0) == 0)
        evaluate(&f);
    coco_file_clear(&f);
    folder_remove("a.json");
    folder_close();
    return 0;
}
