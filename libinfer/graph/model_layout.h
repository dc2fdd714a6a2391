/* SPDX-License-Identifier: Apache-2.0 */
/* Words and limits of the model file that its writer and reader share. */
#ifndef LIBINFER_GRAPH_MODEL_LAYOUT_H
#define LIBINFER_GRAPH_MODEL_LAYOUT_H

#define MODEL_METADATA       "__metadata__"
#define MODEL_KEY_VERSION    "infer.version"
#define MODEL_VERSION_TEXT   "1"
#define MODEL_KEY_HEADER_CRC "infer.header_crc32"
#define MODEL_KEY_GRAPH      "infer.graph"
#define MODEL_KEY_CRC        "infer.crc32"
/* Metadata of a multiplier, and the tensor that is its table. */
#define MODEL_KEY_MULTIPLIER "infer.multiplier"

/* The text before the 8 digits of the header's CRC. */
#define MODEL_HEADER_CRC_MARK "\"" MODEL_KEY_HEADER_CRC "\":\""

#define MODEL_ALIGN 64 /* of the data, and of tensors if possible */
#define MODEL_MAX_HEADER                                                       \
    100000000 /* bytes; the limit of safetensors itself                        \
               */
/* Offsets are numbers of JSON: exact, and printed without an exponent. */
#define MODEL_MAX_BYTES UINT64_C(1000000000000000)

#endif
