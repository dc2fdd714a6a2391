#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One small network in every format that holds a network.

    one_network.py FOLDER

Writes net.npz (input0, output0, computed by NumPy in double precision) and the
network as net.pt2 (torch.export), net.onnx, net.keras, net.h5,
saved/ (a SavedModel), net.pb, net.tflite, net.prototxt + net.caffemodel, net.cfg +
net.weights and net.param + net.bin.  tests/unit/weights/importer/one_network reads
them.  Needs torch, onnx, keras and tensorflow.

    3x12x10, convolution 3x3 of 6, batch norm, ReLU, largest of 2x2, convolution 3x3
    of 8 with stride 2, ReLU, mean of each plane, dense of 5, softmax
"""
import contextlib
import io
import os
import shutil
import struct
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                  KERAS_BACKEND="tensorflow")
import numpy as np  # noqa: E402

EPSILON = 1e-3
random = np.random.default_rng(11)


def draw(*shape):
    fan = max(1, int(np.prod(shape[1:])))
    return (random.standard_normal(shape) / fan ** 0.5).astype(np.float32)


X = random.standard_normal((1, 3, 12, 10)).astype(np.float32)
W1, B1 = draw(6, 3, 3, 3), draw(6)
GAMMA, BETA, MEAN = 1 + draw(6) / 3, draw(6), draw(6)
VARIANCE = (0.5 + random.random(6)).astype(np.float32)
W2, B2 = draw(8, 6, 3, 3), draw(8)
W3, B3 = draw(5, 8) * 3, draw(5)


# ---- the network itself ---------------------------------------------------
def conv(x, w, b, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    h = (x.shape[2] - 3) // stride + 1
    v = (x.shape[3] - 3) // stride + 1
    y = np.zeros((1, len(b), h, v))
    for i in range(h):
        for j in range(v):
            part = x[0, :, i * stride:i * stride + 3, j * stride:j * stride + 3]
            y[0, :, i, j] = (w * part).sum((1, 2, 3)) + b
    return y


def reference():
    def plane(v):
        return v.astype(np.float64)[None, :, None, None]
    y = conv(X.astype(np.float64), W1, B1, 1, 1)
    y = (y - plane(MEAN)) / np.sqrt(plane(VARIANCE) + EPSILON)
    y = np.maximum(y * plane(GAMMA) + plane(BETA), 0)
    y = y.reshape(1, 6, 6, 2, 5, 2).max((3, 5))
    y = np.maximum(conv(y, W2, B2, 2, 0), 0).mean((2, 3))
    y = np.exp(y @ W3.T.astype(np.float64) + B3)
    return (y / y.sum()).astype(np.float32)


# ---- PyTorch and ONNX -----------------------------------------------------
def torch_files(folder):
    import onnx
    import torch
    from onnx import helper, numpy_helper
    n = torch.nn
    net = n.Sequential(n.Conv2d(3, 6, 3, padding=1),
                       n.BatchNorm2d(6, eps=EPSILON), n.ReLU(), n.MaxPool2d(2),
                       n.Conv2d(6, 8, 3, stride=2), n.ReLU(),
                       n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(8, 5),
                       n.Softmax(1)).eval()
    values = {"0.weight": W1, "0.bias": B1, "1.weight": GAMMA, "1.bias": BETA,
              "1.running_mean": MEAN, "1.running_var": VARIANCE,
              "4.weight": W2, "4.bias": B2, "8.weight": W3, "8.bias": B3}
    net.load_state_dict({k: torch.from_numpy(v) for k, v in values.items()},
                        strict=False)
    torch.export.save(torch.export.export(net, (torch.from_numpy(X),)),
                      folder + "/net.pt2")
    node = helper.make_node
    nodes = [node("Conv", ["x", "w1", "b1"], ["1"], pads=[1] * 4),
             node("BatchNormalization", ["1", "g", "b", "m", "v"], ["2"],
                  epsilon=EPSILON),
             node("Relu", ["2"], ["3"]),
             node("MaxPool", ["3"], ["4"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["4", "w2", "b2"], ["5"], strides=[2, 2]),
             node("Relu", ["5"], ["6"]),
             node("GlobalAveragePool", ["6"], ["7"]), node("Flatten", ["7"], ["8"]),
             node("Gemm", ["8", "w3", "b3"], ["9"], transB=1),
             node("Softmax", ["9"], ["y"], axis=1)]
    weights = dict(w1=W1, b1=B1, g=GAMMA, b=BETA, m=MEAN, v=VARIANCE, w2=W2,
                   b2=B2, w3=W3, b3=B3)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [info("x", 1, ["n", 3, 12, 10])], [info("y", 1, ["n", 5])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17)]), folder + "/net.onnx")


# ---- Keras and TensorFlow -------------------------------------------------
def keras_files(folder):
    import keras
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import \
        convert_variables_to_constants_v2
    L = keras.layers
    net = keras.Sequential([
        keras.Input((12, 10, 3)), L.Conv2D(6, 3, padding="same"),
        L.BatchNormalization(epsilon=EPSILON), L.ReLU(), L.MaxPooling2D(2),
        L.Conv2D(8, 3, strides=2, activation="relu"),
        L.GlobalAveragePooling2D(), L.Dense(5, activation="softmax")])
    net.set_weights([W1.transpose(2, 3, 1, 0), B1, GAMMA, BETA, MEAN, VARIANCE,
                     W2.transpose(2, 3, 1, 0), B2, W3.T, B3])
    net.save(folder + "/net.keras")
    net.save(folder + "/net.h5")
    shutil.rmtree(folder + "/saved", ignore_errors=True)
    with contextlib.redirect_stdout(io.StringIO()):
        net.export(folder + "/saved", verbose=False)
        lite = tf.lite.TFLiteConverter.from_keras_model(net).convert()
    with open(folder + "/net.tflite", "wb") as f:
        f.write(lite)
    call = tf.function(lambda x: net(x, training=False)).get_concrete_function(
        tf.TensorSpec((None, 12, 10, 3), tf.float32, name="x"))
    frozen = convert_variables_to_constants_v2(call)
    with open(folder + "/net.pb", "wb") as f:
        f.write(frozen.graph.as_graph_def().SerializeToString())


# ---- Caffe ----------------------------------------------------------------
PROTOTXT = """name: "net"
input: "data" input_shape { dim: 1 dim: 3 dim: 12 dim: 10 }
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 } }
layer { name: "n1" type: "BatchNorm" bottom: "c1" top: "n1"
  batch_norm_param { use_global_stats: true eps: 0.001 } }
layer { name: "s1" type: "Scale" bottom: "n1" top: "n1"
  scale_param { bias_term: true } }
layer { name: "r1" type: "ReLU" bottom: "n1" top: "n1" }
layer { name: "p1" type: "Pooling" bottom: "n1" top: "p1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "c2" type: "Convolution" bottom: "p1" top: "c2"
  convolution_param { num_output: 8 kernel_size: 3 stride: 2 } }
layer { name: "r2" type: "ReLU" bottom: "c2" top: "c2" }
layer { name: "p2" type: "Pooling" bottom: "c2" top: "p2"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "d" type: "InnerProduct" bottom: "p2" top: "d"
  inner_product_param { num_output: 5 } }
layer { name: "y" type: "Softmax" bottom: "d" top: "y" }
"""


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def caffe_layer(name, *blobs):
    out = field(1, name)
    for b in blobs:
        shape = field(1, b"".join(varint(d) for d in b.shape))
        out += field(7, field(7, shape) + field(5, b.astype("<f4").tobytes()))
    return field(100, out)


def caffe_files(folder):
    with open(folder + "/net.prototxt", "w") as f:
        f.write(PROTOTXT)
    with open(folder + "/net.caffemodel", "wb") as f:
        f.write(field(1, "net") + caffe_layer("c1", W1, B1) +
                caffe_layer("n1", MEAN, VARIANCE, np.ones(1, np.float32)) +
                caffe_layer("s1", GAMMA, BETA) + caffe_layer("c2", W2, B2) +
                caffe_layer("d", W3, B3))


# ---- Darknet --------------------------------------------------------------
CFG = """[net]
height=12
width=10
channels=3

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
pad=1
activation=relu

[maxpool]
size=2
stride=2

[convolutional]
filters=8
size=3
stride=2
pad=0
activation=relu

[avgpool]

[connected]
output=5
activation=linear

[softmax]
"""


def darknet_files(folder):
    # Darknet divides by sqrt(variance + 1e-5) where it trains, and has one bias.
    variance = VARIANCE.astype(np.float64) + EPSILON - 1e-5
    parts = [BETA, GAMMA, MEAN - B1, variance, W1, B2, W2, B3, W3]
    with open(folder + "/net.cfg", "w") as f:
        f.write(CFG)
    with open(folder + "/net.weights", "wb") as f:
        f.write(struct.pack("<iiiQ", 0, 2, 0, 0) + b"".join(
            p.astype("<f4").tobytes() for p in parts))


# ---- ncnn -----------------------------------------------------------------
PARAM = """7767517
10 10
Input x 0 1 x 0=10 1=12 2=3
Convolution c1 1 1 x c1 0=6 1=3 3=1 4=1 5=1 6=162
BatchNorm n1 1 1 c1 n1 0=6 1=0.001
ReLU r1 1 1 n1 r1
Pooling p1 1 1 r1 p1 0=0 1=2 2=2
Convolution c2 1 1 p1 c2 0=8 1=3 3=2 4=0 5=1 6=432
ReLU r2 1 1 c2 r2
Pooling p2 1 1 r2 p2 0=1 4=1
InnerProduct d 1 1 p2 d 0=5 1=1 2=40
Softmax y 1 1 d y 0=0
"""


def ncnn_files(folder):
    tag = struct.pack("<I", 0)
    parts = [tag, W1, B1, GAMMA, MEAN, VARIANCE, BETA, tag, W2, B2, tag, W3, B3]
    with open(folder + "/net.param", "w") as f:
        f.write(PARAM)
    with open(folder + "/net.bin", "wb") as f:
        f.write(b"".join(p if isinstance(p, bytes) else
                         p.astype("<f4").tobytes() for p in parts))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    np.savez(folder + "/net.npz", input0=X, output0=reference())
    for write in (torch_files, keras_files, caffe_files, darknet_files,
                  ncnn_files):
        write(folder)


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 2 else __doc__)
