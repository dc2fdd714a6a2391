#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layers_seeds.py FOLDER

Writes tests/data/seed_darknet.fuzz, seed_caffe.fuzz and seed_ncnn.fuzz: seeds of
the fuzz targets of the same names.  Each is the text of a network, a NUL, and its
weights.  Between them the networks have most of a format's layers, small.
"""
import os
import struct
import sys


def floats(n, first=0):
    """n small numbers that differ."""
    return struct.pack("<%df" % n, *[(first + i) % 7 / 8 + 0.125 for i in range(n)])


# ---- Darknet ----

DARKNET = """[net]
width=8
height=8
channels=2
# every layer that is small
[convolutional]
batch_normalize=1
filters=4
size=3
stride=2
pad=1
activation=leaky
[convolutional]
filters=4
groups=2
size=1
activation=hard_mish
[shortcut]
from=-2
activation=linear
[dropout]
probability=.5
[maxpool]
size=2
stride=2
[upsample]
stride=2
[route]
layers=-1,-3
groups=2
group_id=1
[reorg]
stride=2
[yolo]
classes=1
[route]
layers=-3
[avgpool]
[scale_channels]
from=-2
[crop]
crop_height=2
crop_width=2
[connected]
output=3
batch_normalize=1
activation=ramp
[softmax]
groups=1
[region]
"""


def darknet():
    conv = floats(4 * 4 + 4 * 2 * 9)
    conv2 = floats(4 + 4 * 2)
    connected = floats(3 + 3 * 16 + 3 * 3)
    return DARKNET, struct.pack("<iiiq", 0, 2, 5, 1) + conv + conv2 + connected


# ---- Caffe ----

CAFFE = """name: "seed"
input: "data"
input_shape { dim: 1 dim: 2 dim: 8 dim: 8 }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "n" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "p" type: "PReLU" bottom: "c" top: "c" }
layer { name: "o" type: "Pooling" bottom: "c" top: "o"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "d" type: "Deconvolution" bottom: "o" top: "d"
  convolution_param { num_output: 4 group: 4 kernel_size: 2 stride: 2 bias_term: false } }
layer { name: "x" type: "Crop" bottom: "d" bottom: "c" top: "x" }
layer { name: "e" type: "Eltwise" bottom: "x" bottom: "c" top: "e"
  eltwise_param { operation: SUM coeff: 1 coeff: -1 } }
layer { name: "l" type: "LRN" bottom: "e" top: "l" lrn_param { local_size: 3 } }
layer { name: "h" type: "ShuffleChannel" bottom: "l" top: "h"
  shuffle_channel_param { group: 2 } }
layer { name: "i" type: "Slice" bottom: "h" top: "i1" top: "i2"
  slice_param { slice_point: 1 } }
layer { name: "j" type: "Concat" bottom: "i2" bottom: "i1" top: "j" }
layer { name: "m" type: "Permute" bottom: "j" top: "m"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "r" type: "Reshape" bottom: "m" top: "r"
  reshape_param { shape { dim: 0 dim: -1 dim: 2 } } }
layer { name: "t" type: "Softmax" bottom: "r" top: "t" softmax_param { axis: 2 } }
layer { name: "f" type: "Flatten" bottom: "t" top: "f" }
layer { name: "b" type: "PriorBox" bottom: "o" bottom: "data" top: "b"
  prior_box_param { min_size: 2 max_size: 4 aspect_ratio: 2 } }
layer { name: "y" type: "DetectionOutput" bottom: "f" bottom: "f" bottom: "b" top: "y" }
layer { name: "k" type: "InnerProduct" bottom: "f" top: "k"
  inner_product_param { num_output: 2 } }
layer { name: "u" type: "Power" bottom: "k" top: "u" power_param { power: 2 shift: 1 } }
"""


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    if isinstance(data, str):
        data = data.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def layer(name, *blobs):
    out = field(1, name)
    for shape in blobs:
        n = 1
        for d in shape:
            n *= d
        dims = field(1, b"".join(varint(d) for d in shape))
        out += field(7, field(7, dims) + field(5, floats(n)))
    return field(100, out)


def caffe():
    return CAFFE, (field(1, "seed") + layer("c", (4, 2, 3, 3), (4,)) +
                   layer("n", (4,), (4,), (1,)) + layer("s", (4,), (4,)) +
                   layer("p", (4,)) + layer("d", (4, 1, 2, 2)) +
                   layer("k", (2, 64), (2,)))


# ---- ncnn ----

NCNN = """7767517
15 17
Input x 0 1 x 0=8 1=8 2=2
Convolution c 1 1 x c 0=4 1=3 3=2 4=1 5=1 6=72 9=2 -23310=1,0.1
ConvolutionDepthWise w 1 1 c w 0=4 1=3 4=1 5=1 6=36 7=4 9=6 -23310=2,0.2,0.5
Split s 1 2 w a b
Pooling p 1 1 a p 0=1 1=2 2=2
Interp i 1 1 p i 0=2 1=2.0 2=2.0
BinaryOp y 2 1 b i y 0=0
ShuffleChannel h 1 1 y h 0=2
Slice l 1 2 h l1 l2 -23300=2,1,-233
Concat j 2 1 l2 l1 j
BatchNorm n 1 1 j n 0=4 1=0.001
PReLU r 1 1 n r 0=4
Reshape e 1 1 r e 0=-1 1=4
Permute t 1 1 e t 0=1
InnerProduct z 1 1 t z 0=2 1=1 2=8
"""


def ncnn():
    half = struct.pack("<I", 0x01306B47) + struct.pack("<36e", *[i / 8 for i in range(36)])
    return NCNN, (struct.pack("<I", 0) + floats(72 + 4) + half + floats(4) +
                  floats(16) + floats(4) + struct.pack("<I", 0x0002C056) + floats(8 + 2))


def main():
    for name, make in (("darknet", darknet), ("caffe", caffe), ("ncnn", ncnn)):
        text, weights = make()
        with open(os.path.join(sys.argv[1], "seed_%s.fuzz" % name), "wb") as f:
            f.write(text.encode() + b"\0" + weights)


if __name__ == "__main__":
    main()
