/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets that the conformance tests classify. */
#ifndef TESTS_CONFORMANCE_DATA_H
#define TESTS_CONFORMANCE_DATA_H

#include <stddef.h>
#include <stdint.h>

/* Pictures of one size with their classes, planes R,G,B or gray. */
struct dataset {
    int count, channels, height, width;
    uint8_t *pixel; /* count, channels, height, width */
    uint8_t *label;
};

/* At most `limit` pictures of MNIST's t10k (below folder/mnist) or of the
 * lossless CIFAR-10 test batch (below folder/cifar10).  0, or -1 after a
 * message on standard error. */
int dataset_mnist(const char *folder, int limit, struct dataset *out);
int dataset_cifar10(const char *folder, int limit, struct dataset *out);
void dataset_free(struct dataset *d);

#endif
