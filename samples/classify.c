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
    struct infer_array in = {0}, out = {0};
    float *scores;
    size_t i, n, best = 0;
    int status = infer_model_input(model, 0, &info);

    if (status < 0)
        return status; /* no input at all */
    in.dtype = INFER_F32;
    in.rank = 4;
    in.dim[0] = 1;
    in.dim[1] = info.dim[1];
    in.dim[2] = info.dim[2];
    in.dim[3] = info.dim[3];
    in.bytes =
        sizeof(float) * (size_t)(info.dim[1] * info.dim[2] * info.dim[3]);
    in.data = malloc(in.bytes);
    status = in.data == NULL ? INFER_EMEMORY
                             : infer_model_preprocess(model, 0, image, NULL,
                                                      in.data, in.bytes, err);
    if (status == INFER_OK) /* data NULL: only describe the output */
        status = infer_session_run(session, &in, 1, &out, 1, err);
    if (status == INFER_OK && (out.data = malloc(out.bytes)) == NULL)
        status = INFER_EMEMORY;
    if (status == INFER_OK)
        status = infer_session_run(session, &in, 1, &out, 1, err);
    if (status == INFER_OK) {
        const char *label;

        scores = out.data;
        n = out.bytes / sizeof(*scores);
        for (i = 1; i < n; i++)
            if (scores[i] > scores[best])
                best = i;
        label = infer_model_label(model, (int)best);
        printf("%zu %s\n", best, label != NULL ? label : "");
    }
    free(in.data);
    free(out.data);
    return status;
}

int main(int argc, char **argv)
{
    struct infer_model *model = NULL;
    struct infer_session *session = NULL;
    struct infer_image image = {0};
    struct infer_error err = {0};
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: classify MODEL PICTURE\n");
        return 1;
    }
    status = infer_model_open(argv[1], &err, &model);
    if (status == INFER_OK)
        status = infer_session_create(model, NULL, &err, &session);
    if (status == INFER_OK)
        status = infer_image_load(argv[2], 0, &err, &image);
    if (status == INFER_OK)
        status = classify(model, session, &image, &err);
    if (status < 0)
        fprintf(stderr, "classify: %s\n",
                err.text[0] != '\0' ? err.text : infer_status_name(status));
    infer_image_free(&image);
    infer_session_close(&session);
    infer_model_close(&model);
    return status < 0 ? 2 : 0;
}
