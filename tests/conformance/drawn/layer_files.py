#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of Caffe, Darknet and ncnn with drawn layers, options and weights.

    layer_files.py FOLDER --wconv=build/wconv --infer=build/infer
                   [--format=caffe|darknet|ncnn] [--count=100] [--seed=1]
                   [--first=0] [--list=FILE]

The network and its weights are written as the format has them and compared with
OpenCV before version 5 (cv2.dnn; Caffe, Darknet) or with ncnn's Python package,
to 1e-4 of the largest output.  What the reference does not read is left out.
Exit status: 1 where a case differs or crashes.
"""
import collections
import json
import os
import random
import shutil
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite

FORMATS = ("caffe", "darknet", "ncnn")


class Net:
    """What is written so far; values are (name, shape without the batch)."""

    def __init__(self, d):
        self.d, self.text, self.weights, self.n = d, [], [], 0
        self.r = np.random.RandomState(d.randrange(1 << 30))

    def floats(self, *shape, low=-1.0, high=1.0):
        return self.r.uniform(low, high, shape).astype(np.float32)

    def name(self, kind):
        self.n += 1
        return "%s%d" % (kind.lower(), self.n)


# ---- Caffe -----------------------------------------------------------


def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def caffe_layer(net, kind, bottoms, top, options="", blobs=()):
    net.text.append('layer { name: "%s" type: "%s" %s top: "%s" %s }' % (
        top, kind, " ".join('bottom: "%s"' % b for b in bottoms), top,
        options))
    body = field(1, top.encode()) + field(2, kind.encode())
    for b in blobs:
        shape = b"".join(varint(v) for v in b.shape)
        body += field(7, field(7, field(1, shape))
                      + field(5, b.astype("<f4").tobytes()))
    net.weights.append(field(100, body))


def caffe_window(d, size, pool=False):
    k = [d.randint(1, min(4, size[0])), d.randint(1, min(4, size[1]))]
    s = [d.randint(1, min(3, k[0] + 1 - pool)),
         d.randint(1, min(3, k[1] + 1 - pool))]
    p = [d.randint(0, v - 1) for v in k]
    if d.random() < 0.5:
        k[1], s[1], p[1] = k[0], s[0], p[0]
        k[0] = k[1] = min(k[0], size[0], size[1])
        s[0] = s[1] = min(s[0], k[0] if pool else s[0])
        p = [min(p[0], k[0] - 1)] * 2
        return k, s, p, "kernel_size: %d stride: %d pad: %d" % (
            k[0], s[0], p[0])
    return k, s, p, ("kernel_h: %d kernel_w: %d stride_h: %d stride_w: %d "
                     "pad_h: %d pad_w: %d" % (*k, *s, *p))


def caffe_step(net, v):
    d, (x, s) = net.d, v
    c = s[0]
    spatial = len(s) == 3
    kind = d.choice((
        "Convolution", "Convolution", "Deconvolution", "Pooling", "Pooling",
        "BatchNorm", "Scale", "ReLU", "PReLU", "ELU", "Sigmoid", "TanH",
        "AbsVal", "Power", "LRN", "Eltwise", "Concat", "Slice", "Flatten",
        "InnerProduct", "Softmax", "Permute", "Reshape", "Dropout", "Crop",
        "BNLL", "MVNless", "Split", "ReLU6", "Exp"))
    top = net.name(kind)
    if kind in ("Convolution", "Deconvolution", "Pooling", "LRN", "Crop",
                "PReLU", "BatchNorm", "Permute") and not spatial:
        kind = "ReLU"
    if kind in ("Convolution", "Deconvolution"):
        k, st, p, text = caffe_window(d, s[1:])
        g = d.choice([v for v in (1, 1, 2, c) if c % v == 0])
        out = g * d.randint(1, 3)
        dil = 1
        bias = d.random() < 0.6
        if kind == "Convolution" and d.random() < 0.25 and k[0] == k[1] and \
                (k[0] - 1) * 2 + 1 <= min(s[1], s[2]):
            dil = 2
            text += " dilation: 2"
        e = [(v - 1) * dil + 1 for v in k]
        if kind == "Convolution":
            hw = [(s[1 + i] + 2 * p[i] - e[i]) // st[i] + 1 for i in (0, 1)]
            w = net.floats(out, c // g, *k)
        else:
            hw = [(s[1 + i] - 1) * st[i] + e[i] - 2 * p[i] for i in (0, 1)]
            w = net.floats(c, out // g, *k)
        caffe_layer(net, kind, [x], top, "convolution_param { num_output: %d %s"
                    "%s%s }" % (out, text, " group: %d" % g if g > 1 else "",
                                "" if bias else " bias_term: false"),
                    [w] + ([net.floats(out)] if bias else []))
        return top, [out] + hw
    if kind == "Pooling":
        how = d.choice(("MAX", "AVE"))
        if d.random() < 0.2:
            caffe_layer(net, kind, [x], top, "pooling_param { pool: %s "
                        "global_pooling: true }" % how)
            return top, [c, 1, 1]
        k, st, p, text = caffe_window(d, s[1:], True)
        ceil = d.random() < 0.7
        hw = []
        for i in (0, 1):
            n = s[1 + i] + 2 * p[i] - k[i]
            o = (-(-n // st[i]) if ceil else n // st[i]) + 1
            if p[i] and (o - 1) * st[i] >= s[1 + i] + p[i]:
                o -= 1
            hw.append(o)
        caffe_layer(net, kind, [x], top, "pooling_param { pool: %s %s%s }" % (
            how, text, "" if ceil else " round_mode: FLOOR"))
        return top, [c] + hw
    if kind == "BatchNorm":
        eps = d.choice(("", "batch_norm_param { eps: 0.001 }",
                        "batch_norm_param { use_global_stats: true }"))
        f = d.choice((1.0, 0.5, 999.98))
        caffe_layer(net, kind, [x], top, eps, [
            net.floats(c) * f, net.floats(c, low=0.2) * f,
            np.asarray([f], np.float32)])
        return top, s
    if kind == "Scale":
        bias = d.random() < 0.6
        caffe_layer(net, kind, [x], top, "scale_param { bias_term: %s }" % (
            "true" if bias else "false"),
            [net.floats(c)] + ([net.floats(c)] if bias else []))
        return top, s
    if kind == "PReLU":
        one = d.random() < 0.3
        caffe_layer(net, kind, [x], top, "prelu_param { channel_shared: %s }"
                    % ("true" if one else "false"),
                    [net.floats(*((1,) if one else (c,)))])
        return top, s
    if kind in ("ReLU", "ELU", "Sigmoid", "TanH", "AbsVal", "BNLL", "ReLU6"):
        text = {"ReLU": d.choice(("", "relu_param { negative_slope: 0.2 }")),
                "ELU": d.choice(("", "elu_param { alpha: 0.7 }"))}.get(kind, "")
        caffe_layer(net, kind, [x], top, text)
        return top, s
    if kind == "Power":
        caffe_layer(net, kind, [x], top, "power_param { %s }" % d.choice((
            "scale: 0.5 shift: 1.5", "power: 2", "power: 2 scale: 0.3",
            "shift: -0.5")))
        return top, s
    if kind == "LRN":
        caffe_layer(net, kind, [x], top, "lrn_param { local_size: %d alpha: %s "
                    "beta: 0.75%s }" % (d.choice((3, 5)), d.choice(
                        ("0.01", "1.0")), d.choice((
                            "", " norm_region: WITHIN_CHANNEL",
                            " norm_region: ACROSS_CHANNELS"))))
        return top, s
    if kind == "Eltwise":
        other = net.name("relu")
        caffe_layer(net, "ReLU", [x], other)
        caffe_layer(net, kind, [x, other], top, d.choice((
            "", "eltwise_param { operation: PROD }",
            "eltwise_param { operation: MAX }",
            "eltwise_param { operation: SUM coeff: 0.5 coeff: -2 }")))
        return top, s
    if kind == "Concat":
        other = net.name("sig")
        axis = d.randint(1, len(s))
        caffe_layer(net, "Sigmoid", [x], other)
        caffe_layer(net, kind, [x, other], top, "" if axis == 1 and
                    d.random() < 0.5 else "concat_param { axis: %d }" % (
                        d.choice((axis, axis - len(s) - 1))))
        s = list(s)
        s[axis - 1] *= 2
        return top, s
    if kind == "Slice" and c >= 2:
        a, b = net.name("part"), net.name("part")
        cut = d.randint(1, c - 1)
        net.text.append('layer { name: "%s" type: "Slice" bottom: "%s" top: '
                        '"%s" top: "%s" slice_param { axis: 1 slice_point: %d '
                        '} }' % (top, x, a, b, cut))
        caffe_layer(net, "Concat", [b, a], top + "c")
        return top + "c", s
    if kind == "Flatten":
        caffe_layer(net, kind, [x], top)
        return top, [int(np.prod(s))]
    if kind == "InnerProduct":
        n, out = int(np.prod(s)), d.randint(2, 9)
        bias = d.random() < 0.6
        caffe_layer(net, kind, [x], top, "inner_product_param { num_output: %d"
                    "%s }" % (out, "" if bias else " bias_term: false"),
                    [net.floats(out, n)] + ([net.floats(out)] if bias else []))
        return top, [out]
    if kind == "Softmax":
        axis = d.randint(1, len(s))
        caffe_layer(net, kind, [x], top, "" if axis == 1 else
                    "softmax_param { axis: %d }" % axis)
        return top, s
    if kind == "Permute":
        order = d.sample((1, 2, 3), 3)
        caffe_layer(net, kind, [x], top, "permute_param { order: 0 %s }"
                    % " ".join("order: %d" % o for o in order))
        return top, [s[o - 1] for o in order]
    if kind == "Reshape":
        to = d.choice(([0, -1], [0, 0, -1], [0, -1, 1, 1]))
        if len(to) > len(s) + 1 and to[1] == 0:
            to = [0, -1]
        caffe_layer(net, kind, [x], top, "reshape_param { shape { %s } }"
                    % " ".join("dim: %d" % v for v in to))
        n = int(np.prod(s))
        return top, {2: [n], 3: [c, n // c], 4: [n, 1, 1]}[len(to)]
    if kind == "Crop":
        other = net.name("pool")
        if min(s[1:]) < 4:
            caffe_layer(net, "Dropout", [x], top)
            return top, s
        caffe_layer(net, "Pooling", [x], other, "pooling_param { pool: MAX "
                    "kernel_size: 2 stride: 1 }")
        caffe_layer(net, kind, [x, other], top, "crop_param { axis: 2 offset: "
                    "%d offset: %d }" % (d.randint(0, 1), d.randint(0, 1)))
        return top, [c, s[1] - 1, s[2] - 1]
    if kind == "Exp":
        caffe_layer(net, "TanH", [x], top + "t")
        caffe_layer(net, kind, [top + "t"], top, d.choice((
            "", "exp_param { base: 2 scale: 0.5 shift: 0.3 }")))
        return top, s
    caffe_layer(net, "Dropout", [x], top, "dropout_param { dropout_ratio: 0.3 }")
    return top, s


def caffe(a, d):
    net = Net(d)
    shape = [d.randint(1, 6), d.randint(6, 12), d.randint(6, 12)]
    old = d.random() < 0.5
    net.text.append('name: "drawn"')
    net.text.append(
        'input: "data" ' + " ".join("input_dim: %d" % v for v in [1] + shape)
        if old else 'layer { name: "data" type: "Input" top: "data" '
        'input_param { shape { %s } } }' % " ".join(
            "dim: %d" % v for v in [1] + shape))
    v = "data", shape
    for _ in range(d.randint(2, 7)):
        v = caffe_step(net, v)
        if min(v[1]) < 1 or np.prod(v[1]) > 20000:
            raise ValueError("a size of nothing")
    paths = a.folder + "/case.prototxt", a.folder + "/case.caffemodel"
    with open(paths[0], "w") as f:
        f.write("\n".join(net.text) + "\n")
    with open(paths[1], "wb") as f:
        f.write(field(1, b"drawn") + b"".join(net.weights))
    x = net.floats(1, *shape)

    def reference():
        import cv2
        n = cv2.dnn.readNetFromCaffe(*paths)
        n.setInput(x)
        return n.forward()
    return paths, [], x, reference, net.text


# ---- Darknet ---------------------------------------------------------


def darknet(a, d):
    net = Net(d)
    c, h, w = d.choice((1, 3)), d.choice((32, 48, 64)), d.choice((32, 64))
    shape = [c, h, w]
    text = ["[net]\nbatch=1\nheight=%d\nwidth=%d\nchannels=%d\n" % (h, w, c)]
    layers = []  # shapes of outputs
    for _ in range(d.randint(3, 9)):
        c, h, w = layers[-1] if layers else shape
        kind = d.choice(("conv", "conv", "conv", "max", "avgless", "upsample",
                         "route", "shortcut", "reorg", "dropout", "scale"))
        if kind == "conv" or not layers:
            k, s = d.choice((1, 3, 3, 5, 2)), d.choice((1, 1, 2))
            g = d.choice([v for v in (1, 1, 2, c) if c % v == 0])
            n = g * d.randint(1, 4)
            bn = d.random() < 0.6
            act = d.choice(("leaky", "linear", "relu", "mish", "swish",
                            "logistic"))
            pad = d.random() < 0.8
            p = k // 2 if pad else d.choice((0, 1))
            if (h + 2 * p - k) < 0 or (w + 2 * p - k) < 0:
                continue
            text.append("[convolutional]\n%sfilters=%d\nsize=%d\nstride=%d\n%s"
                        "activation=%s\n%s" % (
                            "batch_normalize=1\n" if bn else "", n, k, s,
                            "pad=1\n" if pad else "padding=%d\n" % p, act,
                            "groups=%d\n" % g if g > 1 else ""))
            net.weights.append(net.floats(n))
            if bn:
                net.weights += [net.floats(n, low=0.5), net.floats(n),
                                net.floats(n, low=0.2)]
            net.weights.append(net.floats(n, c // g, k, k))
            layers.append([n, (h + 2 * p - k) // s + 1,
                           (w + 2 * p - k) // s + 1])
        elif kind == "max":
            k, s = d.choice((2, 2, 3, 5)), d.choice((1, 2))
            if min(h, w) < k:
                continue
            text.append("[maxpool]\nsize=%d\nstride=%d\n" % (k, s))
            layers.append([c, (h + k - 1 - k) // s + 1,
                           (w + k - 1 - k) // s + 1])
        elif kind == "upsample":
            if c * h * w > 8000:
                continue
            text.append("[upsample]\nstride=2\n")
            layers.append([c, 2 * h, 2 * w])
        elif kind == "route":
            same = [i for i, v in enumerate(layers) if v[1:] == [h, w]]
            pick = d.sample(same, min(len(same), d.randint(1, 3)))
            if len(pick) == 1 and layers[pick[0]][0] % 2 == 0 and \
                    d.random() < 0.6:
                text.append("[route]\nlayers=%d\ngroups=2\ngroup_id=%d\n" % (
                    pick[0] - len(layers), d.randint(0, 1)))
                layers.append([layers[pick[0]][0] // 2, h, w])
                continue
            text.append("[route]\nlayers=%s\n" % ",".join(
                str(i if d.random() < 0.5 else i - len(layers))
                for i in pick))
            layers.append([sum(layers[i][0] for i in pick), h, w])
        elif kind == "shortcut":
            same = [i for i, v in enumerate(layers[:-1]) if v == [c, h, w]]
            if not same:
                continue
            text.append("[shortcut]\nfrom=%d\nactivation=%s\n" % (
                d.choice(same) - len(layers), d.choice(("linear", "leaky"))))
            layers.append([c, h, w])
        elif kind == "reorg":
            if h % 2 or w % 2 or c % 4:
                continue
            text.append("[reorg]\nstride=2\n")
            layers.append([c * 4, h // 2, w // 2])
        elif kind == "dropout":
            text.append("[dropout]\nprobability=.5\n")
            layers.append([c, h, w])
        else:
            continue
        if min(layers[-1]) < 1 or np.prod(layers[-1]) > 60000:
            raise ValueError("a size of nothing")
    paths = a.folder + "/case.cfg", a.folder + "/case.weights"
    with open(paths[0], "w") as f:
        f.write("\n".join(text))
    with open(paths[1], "wb") as f:
        f.write(struct.pack("<iiiq", 0, 2, 5, 0))
        for v in net.weights:
            f.write(v.astype("<f4").tobytes())
    x = net.floats(1, *shape, low=0)

    def reference():
        import cv2
        n = cv2.dnn.readNetFromDarknet(*paths)
        n.setInput(x)
        return n.forward()
    norms = any("batch_normalize" in t for t in text)
    return paths, ["--bn-eps=1e-6"] if norms else [], x, reference, text


# ---- ncnn ------------------------------------------------------------


def ncnn_step(net, v):
    d, (x, s) = net.d, v
    top, c, spatial = "v%d" % (net.n + 1), s[0], len(s) == 3
    net.n += 1

    def put(kind, text="", inputs=(x,), outputs=(top,), weights=()):
        net.text.append("%s %s_%d %d %d %s %s %s" % (
            kind, kind, len(net.text), len(inputs), len(outputs),
            " ".join(inputs), " ".join(outputs), text))
        for w, tagged in weights:
            if tagged:
                net.weights.append(struct.pack("<i", 0))
            net.weights.append(w.astype("<f4").tobytes())

    kind = d.choice((
        "Convolution", "Convolution", "ConvolutionDepthWise", "Deconvolution",
        "Pooling", "Pooling", "BatchNorm", "Scale", "ReLU", "PReLU", "ELU",
        "Sigmoid", "TanH", "AbsVal", "Swish", "HardSwish", "HardSigmoid",
        "Mish", "GELU", "SELU", "Clip", "UnaryOp", "BinaryOp", "BinaryScalar",
        "Concat", "Slice", "Flatten", "InnerProduct", "Softmax", "Permute",
        "Reshape", "Padding", "Crop", "Interp", "PixelShuffle", "Reduction",
        "InstanceNorm", "GroupNorm", "LayerNorm", "ShuffleChannel", "Eltwise",
        "Dropout", "Power", "LRN"))
    if not spatial and kind not in ("ReLU", "Sigmoid", "TanH", "InnerProduct",
                                    "Swish", "UnaryOp", "BinaryScalar", "Clip",
                                    "ELU", "AbsVal"):
        kind = "ReLU"
    if kind in ("Convolution", "ConvolutionDepthWise", "Deconvolution"):
        k = [d.randint(1, min(3, s[2])), d.randint(1, min(3, s[1]))]  # w, h
        st, dil = [d.randint(1, 2), d.randint(1, 2)], [1, 1]
        if d.random() < 0.3:
            dil = [2 if (k[0] - 1) * 2 < s[2] else 1,
                   2 if (k[1] - 1) * 2 < s[1] else 1]
        e = [(k[i] - 1) * dil[i] + 1 for i in (0, 1)]
        pads = [d.randint(0, e[0] - 1), d.randint(0, e[0] - 1),
                d.randint(0, e[1] - 1), d.randint(0, e[1] - 1)]  # l r t b
        g = 1
        if kind == "ConvolutionDepthWise":
            g = d.choice([v for v in (c, c, 2) if c % v == 0])
        out = g * d.randint(1, 3)
        bias = d.random() < 0.6
        act = d.choice(("", "", " 9=1", " 9=2 -23310=1,0.2",
                        " 9=3 -23310=2,-0.5,0.7", " 9=4", " 9=5"))
        text = "0=%d 1=%d 11=%d 2=%d 12=%d 3=%d 13=%d 4=%d 15=%d 14=%d 16=%d " \
            "5=%d 6=%d%s" % (out, k[0], k[1], dil[0], dil[1], st[0], st[1],
                             pads[0], pads[1], pads[2], pads[3], bias,
                             out * (c // g) * k[0] * k[1], act)
        if g > 1:
            text += " 7=%d" % g
        if kind == "Deconvolution":
            hw = [(s[1] - 1) * st[1] + e[1] - pads[2] - pads[3],
                  (s[2] - 1) * st[0] + e[0] - pads[0] - pads[1]]
        else:
            hw = [(s[1] + pads[2] + pads[3] - e[1]) // st[1] + 1,
                  (s[2] + pads[0] + pads[1] - e[0]) // st[0] + 1]
        put(kind, text, weights=[(net.floats(out, c // g, k[1], k[0]), True)]
            + ([(net.floats(out), False)] if bias else []))
        return top, [out] + hw
    if kind == "Pooling":
        how = d.randint(0, 1)
        if d.random() < 0.2:
            put(kind, "0=%d 4=1" % how)
            return top, [c]
        if d.random() < 0.2:
            ow, oh = d.randint(1, s[2]), d.randint(1, s[1])
            put(kind, "0=%d 7=1 8=%d 18=%d" % (how, ow, oh))
            return top, [c, oh, ow]
        k = [d.randint(1, min(3, s[2])), d.randint(1, min(3, s[1]))]
        st = [d.randint(1, 2), d.randint(1, 2)]
        p = [d.randint(0, k[0] - 1), d.randint(0, k[0] - 1),
             d.randint(0, k[1] - 1), d.randint(0, k[1] - 1)]
        mode = d.choice((0, 1, 2, 3))
        if mode > 1:
            p = [0, 0, 0, 0]
        put(kind, "0=%d 1=%d 11=%d 2=%d 12=%d 3=%d 14=%d 13=%d 15=%d 5=%d%s" % (
            how, k[0], k[1], st[0], st[1], p[0], p[1], p[2], p[3], mode,
            " 6=1" if how == 1 and d.random() < 0.5 else ""))
        return top, None
    if kind == "BatchNorm":
        put(kind, "0=%d 1=%g" % (c, d.choice((0, 1e-3))), weights=[
            (net.floats(c), False), (net.floats(c), False),
            (net.floats(c, low=0.2), False), (net.floats(c), False)])
        return top, s
    if kind == "Scale":
        bias = d.randint(0, 1)
        put(kind, "0=%d 1=%d" % (c, bias), weights=[(net.floats(c), False)] + (
            [(net.floats(c), False)] if bias else []))
        return top, s
    if kind == "PReLU":
        n = d.choice((1, c))
        put(kind, "0=%d" % n, weights=[(net.floats(n), False)])
        return top, s
    if kind == "UnaryOp":
        op = d.choice((0, 1, 2, 3, 4, 7, 9, 10, 14, 15, 16))
        put(kind, "0=%d" % op)
        return top, s
    if kind == "BinaryScalar":
        put("BinaryOp", "0=%d 1=1 2=%g" % (d.choice((0, 1, 2, 3, 4, 5, 7, 8)),
                                          d.choice((0.5, -1.5, 2))))
        return top, s
    if kind in ("BinaryOp", "Eltwise", "Concat"):
        a, b, e = top + "a", top + "b", top + "e"
        put("Split", outputs=(a, b))
        net.text.append("Sigmoid sig_%d 1 1 %s %s" % (len(net.text), b, e))
        if kind == "Concat":
            axis = d.randint(0, 2)
            put(kind, "0=%d" % d.choice((axis, axis - 3)), inputs=(a, e))
            s = list(s)
            s[axis] *= 2
        elif kind == "BinaryOp":
            put(kind, "0=%d" % d.choice((0, 1, 2, 3, 4, 5, 7, 8)),
                inputs=(a, e))
        else:
            put(kind, d.choice(("0=0", "0=1", "0=2", "0=1 -23301=2,0.5,-2.0")),
                inputs=(a, e))
        return top, s
    if kind == "Slice":
        axis = d.randint(0, 2)
        if s[axis] < 2:
            put("ReLU")
            return top, s
        cut = d.randint(1, s[axis] - 1)
        a, b = top + "a", top + "b"
        put(kind, "-23300=2,%d,-233 1=%d" % (cut, axis), outputs=(a, b))
        put("Concat", "0=%d" % axis, inputs=(b, a))
        return top, s
    if kind == "InnerProduct":
        n, out = int(np.prod(s)), d.randint(2, 8)
        bias = d.random() < 0.6
        put(kind, "0=%d 1=%d 2=%d%s" % (out, bias, out * n, d.choice(
            ("", " 9=1", " 9=4"))), weights=[(net.floats(out, n), True)] + (
                [(net.floats(out), False)] if bias else []))
        return top, [out]
    if kind == "Permute":
        put(kind, "0=%d" % d.randint(0, 5))
        return top, None
    if kind == "Reshape":
        n = int(np.prod(s))
        put(kind, d.choice(("0=-1", "0=%d 1=-1" % s[2], "0=0 1=0 2=-1",
                            "0=%d 1=%d 2=%d" % (s[1], s[2], c))))
        return top, None
    text = {
        "ReLU": d.choice(("", "0=0.2")), "ELU": d.choice(("0=0.1", "0=0.7")),
        "HardSwish": "0=0.2 1=0.5", "HardSigmoid": d.choice((
            "0=0.2 1=0.5", "0=0.16667 1=0.4")), "GELU": "0=1",
        "Clip": "0=-0.4 1=0.6", "Softmax": "0=%d 1=1" % d.randint(0, 2),
        "Padding": "0=%d 1=%d 2=%d 3=%d 4=%d 5=%g" % (
            d.randint(0, 1), d.randint(0, 2), d.randint(0, 2), d.randint(0, 1),
            d.randint(0, 2), d.choice((0, 0.5))),
        "Crop": "0=1 1=1 2=0 3=-233 4=-233 5=-233",
        "Interp": "0=%d 1=%s 2=%s%s" % (d.randint(1, 3), *d.choice((
            ("2.0", "2.0"), ("1.5", "3.0"))), d.choice(("", " 6=1"))),
        "Reduction": "0=%d 1=0 -23303=1,%d 4=%d 5=1" % (
            d.choice((0, 2, 3, 4, 5, 6)), d.randint(0, 2), d.randint(0, 1)),
        "InstanceNorm": "0=%d 1=0.001 2=0" % c,
        "LayerNorm": "0=%d 1=0.001 2=0" % s[-1], "Dropout": "",
        "Power": "0=2 1=0.5 2=0.3", "LRN": "0=%d 1=%d 2=0.5 3=0.75" % (
            d.randint(0, 1), d.choice((3, 5)))}.get(kind, "")
    if kind == "PixelShuffle":
        if c % 4:
            kind, text = "ReLU", ""
        else:
            text = "0=2 1=%d" % d.randint(0, 1)
    if kind in ("GroupNorm", "ShuffleChannel"):
        g = d.choice([v for v in (1, 2, 3, c) if c % v == 0])
        text = ("0=%d 1=%d 2=0.001 3=0" % (g, c) if kind == "GroupNorm"
                else "0=%d 1=%d" % (g, d.randint(0, 1)))
    if kind == "Crop" and min(s[1:]) < 3:
        kind, text = "ReLU", ""
    put(kind, text)
    return top, None if kind not in ("ReLU", "ELU", "Sigmoid", "TanH") else s


def ncnn_shape(paths, x, name):
    """The shape that ncnn gives to a value."""
    return list(ncnn_run(paths, x, name).shape)


def ncnn_run(paths, x, name):
    import ncnn
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = False
    net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
    if net.load_param(paths[0]) or net.load_model(paths[1]):
        raise ValueError("not read")
    with net.create_extractor() as e:
        e.input("data", ncnn.Mat(x[0]).clone())
        rc, out = e.extract(name)
        if rc:
            raise ValueError("not run")
        return np.array(out)


def ncnn(a, d):
    net = Net(d)
    shape = [d.randint(2, 8), d.randint(5, 12), d.randint(5, 12)]
    head = "Input input 0 1 data 0=%d 1=%d 2=%d" % (shape[2], shape[1],
                                                   shape[0])
    paths = a.folder + "/case.param", a.folder + "/case.bin"
    x = net.floats(1, *shape)
    v = "data", shape

    def write():
        lines = [head] + net.text
        blobs = {n for t in lines for n in t.split()[4 + int(t.split()[2]):][
            :int(t.split()[3])]}
        with open(paths[0], "w") as f:
            f.write("7767517\n%d %d\n%s\n" % (len(lines), len(blobs),
                                             "\n".join(lines)))
        with open(paths[1], "wb") as f:
            f.write(b"".join(net.weights))

    net.text.append("Scale scale 1 1 data v0 0=%d" % shape[0])
    net.weights.append(net.floats(shape[0]).tobytes())
    v = "v0", shape
    for _ in range(d.randint(2, 6)):
        v = ncnn_step(net, v)
        if v[1] is None:
            write()
            v = v[0], ncnn_shape(paths, x, v[0])
        if not v[1] or min(v[1]) < 1 or np.prod(v[1]) > 20000:
            raise ValueError("a size of nothing")
        if len(v[1]) == 2:
            v = v[0], v[1]
            break
    write()
    return paths, [], x, lambda: ncnn_run(paths, x, v[0])[None], net.text


# ---- cases -----------------------------------------------------------


def close(got, want):
    if got.size == want.size and got.shape != want.shape:
        squeezed = [v for v in got.shape if v != 1]
        if squeezed == [v for v in want.shape if v != 1]:
            got = got.reshape(want.shape)
    top = float(np.abs(want[np.isfinite(want)]).max(initial=0))
    return suite.close(got, want.astype(np.float32), 1e-4, 1e-4 * top)


def attempt(a, case):
    paths, options, x, reference, _ = case
    out, model = a.folder + "/out", a.folder + "/case.infer"
    try:
        with suite.silent():
            want = reference()
    except Exception as e:
        return "not run", str(e).split("\n")[0]
    if not np.isfinite(want).all():
        return "not run", "not finite"
    rc, text = suite.run(a.wconv, *paths, "-o", model, "-q", *options)
    if rc != 0:
        return "refused" if rc == 2 else "crashed", text.replace(paths[0], "")
    np.save(a.folder + "/in0.npy", x)
    shutil.rmtree(out, ignore_errors=True)
    rc, text = suite.run(a.infer, "-m", model, "-q", "--threads=1",
                         "--export-output=" + out,
                         "--load-inputs=" + a.folder + "/in0.npy")
    if rc != 0:
        return "run refused" if rc in (1, 2) else "crashed", text
    got = [np.load(os.path.join(out, f)) for f in sorted(os.listdir(out))]
    why = [close(g, want) for g in got]
    return ("match", "") if "" in why else ("differs", "; ".join(why))


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--format", choices=FORMATS)
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for form in [a.format] if a.format else FORMATS:
        for i in range(a.first, a.first + a.count):
            d = random.Random("%s %d %d" % (form, a.seed, i))
            text = []
            try:
                with suite.silent():
                    case = globals()[form](a, d)
                text = case[4]
            except Exception as e:  # no network of any size
                total["not run"] += 1
                continue
            status, why = attempt(a, case)
            total[status] += 1
            if status not in ("match", "not run"):
                causes[status, form].append((str(i), why))
                print(form, i, status, why.split("\n")[0][:200], flush=True)
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"format": form, "case": i,
                                      "status": status, "why": why,
                                      "text": text}), file=f)
    return suite.report(total, causes, left_out=("not run",))


if __name__ == "__main__":
    sys.exit(main())
