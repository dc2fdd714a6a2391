/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shortest useful program: classifies one picture with nothing but
 * infer.h.
 *
 *     cc classify.c $(pkg-config --cflags --libs libinfer) -o classify
 *     ./classify digits.infer images/7.png
 */
#include <stdio.h>
#include <stdlib.h>

#include <infer.h>

/* Runs the network, whose scores are F32, on one picture and prints the best
 * class. */
static int classify(const struct infer_model *model,
                    struct infer_session *session,
                    const struct infer_image *image, struct infer_error *err)
{
    struct infer_tensor_info info;
    struct infer_tensor in = {0}, out = {0};
    int rc = infer_model_input(model, 0, &info);

    if (rc < 0)
        return rc;   /* no input at all */
    info.dim[0] = 1; /* a batch of one picture */
    in.dtype = info.dtype;
    in.rank = info.rank;
    for (int i = 0; i < info.rank; i++)
        in.dim[i] = info.dim[i];
    in.bytes = infer_tensor_info_bytes(&info);
    in.data = malloc(in.bytes);
    rc = in.data == NULL ? INFER_EMEMORY
                         : infer_model_preprocess(model, 0, image, NULL,
                                                  in.data, in.bytes, err);
    if (rc == 0) /* data NULL: the output stays in the session */
        rc = infer_session_run_tensors(session, &in, 1, &out, 1, err);
    if (rc == 0) {
        const float *scores = out.data;
        const size_t n = out.bytes / sizeof *scores;
        size_t best = 0;

        for (size_t i = 1; i < n; i++)
            if (scores[i] > scores[best])
                best = i;
        const char *label = infer_model_label(model, (int)best);

        printf("%zu %s\n", best, label != NULL ? label : "");
    }
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
        fprintf(stderr, "usage: classify MODEL PICTURE\n");
        return 1;
    }
    rc = infer_model_open(argv[1], &err, &model);
    if (rc == 0)
        rc = infer_session_create(model, NULL, &err, &session);
    if (rc == 0)
        rc = infer_image_load(argv[2], 0, &err, &image);
    if (rc == 0)
        rc = classify(model, session, &image, &err);
    if (rc < 0)
        fprintf(stderr, "classify: %s\n",
                err.text[0] != '\0' ? err.text : infer_status_name(rc));
    infer_image_free(&image);
    infer_session_close(&session);
    infer_model_close(&model);
    return rc < 0 ? 2 : 0;
}
