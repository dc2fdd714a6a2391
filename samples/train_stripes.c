/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a classifier with infer_train.h alone: LeNet-5 learns the angle of
 * stripes, which are drawn while it learns.  Then it runs on new stripes, and
 * the checkpoint is written, which wconv makes a model file of.
 *
 *     cc train_stripes.c $(pkg-config --cflags --libs libinfer_train) -o
 * stripes
 *     ./stripes stripes.safetensors 200
 *     wconv stripes.safetensors -o stripes.infer
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <infer_train.h>

#define SIZE    28
#define CLASSES 10

/* What draws the pictures; it counts down to the last. */
struct stripes {
    unsigned int seed;
    int64_t left;
};

static double draw(struct stripes *s) /* 0 .. 1 */
{
    s->seed = s->seed * 1664525u + 1013904223u;
    return (s->seed >> 8) / 16777216.0;
}

/* The callback: stripes of a random class, width and phase, with noise. */
static int64_t fill(void *user, float *pictures, int32_t *label, int64_t room)
{
    const double pi = 3.14159265358979;
    struct stripes *s = user;
    int64_t count = s->left < room ? s->left : room;

    for (int64_t i = 0; i < count; i++) {
        const int class = (int)(draw(s) * CLASSES) % CLASSES;
        const double angle = pi * class / CLASSES;
        const double step = 0.6 + 0.6 * draw(s), phase = 2 * pi * draw(s);

        label[i] = class;
        for (int y = 0; y < SIZE; y++)
            for (int x = 0; x < SIZE; x++)
                *pictures++ =
                    (float)(sin(step * (x * cos(angle) + y * sin(angle)) +
                                phase) +
                            draw(s) - 0.5);
    }
    s->left -= count;
    return count;
}

int main(int argc, char **argv)
{
    static const char *const name[CLASSES] = {"0",  "18",  "36",  "54",  "72",
                                              "90", "108", "126", "144", "162"};
    const int steps = argc > 2 ? atoi(argv[2]) : 0;
    struct infer_train_options options;
    struct infer_trainer *trainer = NULL;
    struct infer_train_result result;
    struct stripes data = {.seed = 1, .left = INT64_MAX};
    struct infer_error err = {0};
    int rc;

    if (argc != 3 || steps < 1) {
        fprintf(stderr, "usage: train_stripes CHECKPOINT STEPS\n");
        return 1;
    }
    infer_train_options_init(&options);
    options.batch = 32;
    options.optimizer = INFER_OPTIMIZER_ADAM;
    rc = infer_trainer_create("lenet5", &options, &err, &trainer);
    if (rc == 0)
        rc = infer_trainer_set_labels(trainer, name, CLASSES, &err);
    for (int done = 0; rc == 0 && done < steps; done += 50) {
        rc = infer_trainer_run(trainer, steps - done < 50 ? steps - done : 50,
                               fill, &data, &err, &result);
        if (rc == 0)
            printf("step %lld: loss %.3f, %.1f %% right\n",
                   (long long)infer_trainer_steps(trainer), result.loss,
                   100.0 * (double)result.right / (double)result.pictures);
    }
    data = (struct stripes){.seed = 7, .left = 1000};
    if (rc == 0)
        rc = infer_trainer_evaluate(trainer, fill, &data, &err, &result);
    if (rc == 0)
        printf("%lld of %lld new pictures right\n", (long long)result.right,
               (long long)result.pictures);
    if (rc == 0)
        rc = infer_trainer_save(trainer, argv[1], &err);
    if (rc < 0)
        fprintf(stderr, "train_stripes: %s\n", err.text);
    infer_trainer_close(&trainer);
    return rc < 0 ? 2 : 0;
}
