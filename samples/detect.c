/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes of a detector in one picture, one a line: class, score, sides in pixels
 * of the picture.
 *
 *     cc detect.c $(pkg-config --cflags --libs libinfer) -o detect
 *     ./detect faces.infer faces.png
 */
#include <stdio.h>
#include <stdlib.h>

#include <infer_detect.h>

#define MOST_OUTPUTS 16

/* Memory for an array of this shape. */
static int make_array(const struct infer_tensor_info *info,
                      struct infer_array *out)
{
    *out = (struct infer_array){
        .name = info->name, .dtype = info->dtype, .rank = info->rank};
    for (int i = 0; i < info->rank; i++)
        out->dim[i] = info->dim[i];
    out->bytes = infer_tensor_info_bytes(info);
    out->data = malloc(out->bytes > 0 ? out->bytes : 1);
    return out->data == NULL ? INFER_EMEMORY : INFER_OK;
}

static void print_boxes(const struct infer_model *model,
                        const struct infer_boxes *boxes)
{
    for (int i = 0; i < boxes->count; i++) {
        const struct infer_box *b = &boxes->box[i];
        const char *label = infer_model_label(model, b->label);

        printf("%d %s %.4f %.3f %.3f %.3f %.3f\n", b->label,
               label != NULL ? label : "-", (double)b->score, (double)b->left,
               (double)b->top, (double)b->right, (double)b->bottom);
    }
}

/* Runs the network on a picture as large as its input states. */
static int detect(const struct infer_model *model,
                  struct infer_session *session,
                  const struct infer_image *image, struct infer_error *err)
{
    struct infer_array in = {0}, out[MOST_OUTPUTS] = {{0}};
    struct infer_tensor_info info;
    struct infer_boxes boxes = {0};
    const int n = infer_model_output_count(model);
    int rc = infer_model_input(model, 0, &info);

    if (rc == 0 && n > MOST_OUTPUTS)
        rc = INFER_EUNSUPPORTED;
    if (rc == 0 && info.rank == 4)
        info.dim[0] = 1; /* a batch of one picture */
    if (rc == 0)
        rc = make_array(&info, &in);
    if (rc == 0)
        rc = infer_model_preprocess(model, 0, image, NULL, in.data, in.bytes,
                                    err);
    if (rc == 0) /* now the shapes of the outputs are known */
        rc = infer_session_prepare(session, &in, 1, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = infer_session_output(session, i, &info);
        if (rc == 0)
            rc = make_array(&info, &out[i]);
    }
    if (rc == 0)
        rc = infer_session_run(session, &in, 1, out, n, err);
    if (rc == 0)
        rc = infer_detect(model, out, n, image, NULL, err, &boxes);
    if (rc == 0)
        print_boxes(model, &boxes);
    infer_boxes_free(&boxes);
    for (int i = 0; i < MOST_OUTPUTS; i++)
        free(out[i].data);
    free(in.data);
    return rc;
}

int main(int argc, char **argv)
{
    struct infer_model *model = NULL;
    struct infer_session *session = NULL;
    struct infer_image image = {0};
    struct infer_error err = {0};
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: detect MODEL PICTURE\n");
        return 1;
    }
    rc = infer_model_open(argv[1], &err, &model);
    if (rc == 0)
        rc = infer_session_create(model, NULL, &err, &session);
    if (rc == 0)
        rc = infer_image_load(argv[2], 0, &err, &image);
    if (rc == 0)
        rc = detect(model, session, &image, &err);
    if (rc < 0)
        fprintf(stderr, "detect: %s\n",
                err.text[0] != '\0' ? err.text : infer_status_name(rc));
    infer_image_free(&image);
    infer_session_close(&session);
    infer_model_close(&model);
    return rc < 0 ? 2 : 0;
}
