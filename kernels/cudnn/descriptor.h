/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the descriptors that a graph owns.  The first failure is remembered in
 * the graph; later calls do nothing.
 */
#ifndef KERNELS_CUDNN_DESCRIPTOR_H
#define KERNELS_CUDNN_DESCRIPTOR_H

#include "kernels/cudnn/graph.h"

/* NULL after a failure. */
cudnnBackendDescriptor_t cudnn_make(struct cudnn_graph *g,
                                    cudnnBackendDescriptorType_t type);
void cudnn_set(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
               cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t count,
               const void *value);
void cudnn_set_descriptor(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendDescriptor_t value);
void cudnn_finalize(struct cudnn_graph *g, cudnnBackendDescriptor_t d);

#endif
