#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the architecture files of tests/arch/ for bare weights of others.

    tests/make/arch_files.py [DIR]

Each function below is one network, as its authors' code has it; the file says
which tensors it binds.  Standard library only."""
import json
import os
import sys


class Net:
    """A graph in the JSON of libinfer/graph/model_file.h."""

    def __init__(self, name):
        self.name = name
        self.inputs, self.nodes, self.outputs = [], [], []
        self.weights = {}
        self.count = 0

    def input(self, *shape, name="input", **preprocess):
        entry = {"name": name, "dtype": "F32", "shape": list(shape)}
        if preprocess:
            entry["preprocess"] = preprocess
        self.inputs.append(entry)
        return name

    def node(self, op, inputs, name=None, **attr):
        self.count += 1
        name = name or f"{op}{self.count}"
        entry = {"name": name, "op": op, "in": inputs, "out": [name + ":0"]}
        if attr:
            entry["attr"] = attr
        self.nodes.append(entry)
        return name + ":0"

    def output(self, value, name):
        """Gives a value the name of an output."""
        for node in self.nodes:
            for key in "in", "out":
                node[key] = [name if v == value else v for v in node[key]]
        self.outputs.append(name)

    def weight(self, name, *shape):
        self.weights[name] = {"dtype": "F32", "shape": list(shape)}
        return name

    # -- layers ---------------------------------------------------------

    def conv(self, x, name, cin, cout, kernel, stride=1, pad=0, groups=1,
             dilation=1, bias=True, weight="weight", bias_name="bias",
             separator="."):
        attr = {}
        if groups != 1:
            attr["groups"] = groups
        if stride != 1:
            attr["stride"] = [stride] * 2
        if dilation != 1:
            attr["dilation"] = [dilation] * 2
        if pad:
            attr["pad"] = [pad] * 4 if isinstance(pad, int) else list(pad)
        inputs = [x, self.weight(name + separator + weight, cout,
                                 cin // groups, kernel, kernel)]
        if bias:
            inputs.append(self.weight(name + separator + bias_name, cout))
        return self.node("conv", inputs, name, **attr)

    def bn(self, x, name, channels, epsilon=None):
        parts = "weight", "bias", "running_mean", "running_var"
        inputs = [x] + [self.weight(f"{name}.{p}", channels) for p in parts]
        attr = {"epsilon": epsilon} if epsilon else {}
        return self.node("batch_norm", inputs, name, **attr)

    def dense(self, x, name, cin, cout):
        return self.node("dense", [x, self.weight(name + ".weight", cout, cin),
                                   self.weight(name + ".bias", cout)], name)

    def unary(self, x, kind, **attr):
        return self.node("unary", [x], kind=kind, **attr)

    def relu(self, x):
        return self.unary(x, "relu")

    def leaky(self, x, slope=0.1):
        return self.unary(x, "leaky_relu", a=slope)

    def prelu(self, x, name, channels, spatial=True):
        shape = (channels, 1, 1) if spatial else (channels,)
        return self.node("prelu", [x, self.weight(name + ".weight", *shape)],
                         name)

    def add(self, a, b):
        return self.node("binary", [a, b], kind="add")

    def pool(self, x, kind, window, stride, **attr):
        return self.node("pool", [x], kind=kind, window=[window] * 2,
                         stride=[stride] * 2, **attr)

    def max_pool(self, x, window, stride, **attr):
        return self.pool(x, "max", window, stride, **attr)

    def global_average(self, x):
        return self.node("pool", [x], kind="average")

    def flatten(self, x):
        return self.node("flatten", [x])

    def softmax(self, x, axis):
        return self.node("softmax", [x], axis=axis)

    def concat(self, x, axis=1):
        return self.node("concat", x, axis=axis)

    def transpose(self, x, *order):
        return self.node("transpose", [x], order=list(order))

    def reshape(self, x, *shape):
        return self.node("reshape", [x], shape=list(shape))

    def pad(self, x, begin, end):
        return self.node("pad", [x], pad=list(begin) + list(end))

    def slice(self, x, axes, begin, end, step):
        return self.node("slice", [x], axes=axes, begin=begin, end=end,
                         step=step)

    def write(self, folder, file):
        """One input, node or weight a line."""
        def rows(items):
            return "[\n  " + ",\n  ".join(json.dumps(i) for i in items) + "]"

        parts = ['"infer": 1', f'"name": {json.dumps(self.name)}',
                 f'"inputs": {rows(self.inputs)}',
                 f'"nodes": {rows(self.nodes)}',
                 f'"outputs": {json.dumps(self.outputs)}']
        weights = ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}"
                               for k, v in self.weights.items())
        parts.append('"weights": {\n  ' + weights + "}")
        with open(os.path.join(folder, file + ".json"), "w",
                  encoding="utf-8") as out:
            out.write("{" + ",\n ".join(parts) + "}\n")


MNIST = dict(color="gray", scale=1 / 255, mean=[0.1307], std=[0.3081])


def rgb(mean, std, **more):
    return dict(scale=1 / 255, mean=mean, std=std, **more)


def mnist_cnn_burn():
    net = Net("mnist-cnn-burn")
    x = net.input(-1, 1, 28, 28, **MNIST)
    for i, (cin, cout) in enumerate([(1, 8), (8, 16), (16, 24)], 1):
        x = net.relu(net.conv(x, f"conv{i}", cin, cout, 3))
    x = net.flatten(net.bn(x, "norm1", 24))
    x = net.relu(net.dense(x, "fc1", 11616, 32))
    x = net.bn(net.dense(x, "fc2", 32, 10), "norm2", 10)
    net.output(x, "output")
    return net


def mnist_cnn_jq():
    net = Net("mnist-cnn-jq")
    x = net.max_pool(net.input(-1, 1, 28, 28, **MNIST), 2, 2)
    x = net.relu(net.conv(x, "conv1", 1, 10, 3, pad=1))
    x = net.flatten(net.max_pool(x, 2, 2))
    net.output(net.dense(x, "fc1", 490, 10), "output")
    return net


ATREIDES = rgb([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])


def cifar10_atreides(residual):
    """Shortcuts: 2x2 average pooling, zero channels on both sides."""
    net = Net("resnet20-atreides" if residual else "plainnet20-atreides")
    x = net.input(-1, 3, 32, 32, **ATREIDES)
    x = net.relu(net.bn(net.conv(x, "conv0", 3, 16, 3, pad=1), "bn0", 16))
    cin = 16
    for i in range(9):
        cout = 16 << (i // 3)
        stride = 1 if cin == cout else 2
        name = f"convs.{i}"
        y = net.conv(x, name + ".conv1", cin, cout, 3, stride, 1)
        y = net.relu(net.bn(y, name + ".bn1", cout))
        y = net.conv(y, name + ".conv2", cout, cout, 3, 1, 1)
        y = net.bn(y, name + ".bn2", cout)
        if residual:
            if stride == 2:
                side = (cout - cin) // 2
                x = net.pool(x, "average", 2, 2)
                x = net.pad(x, (0, side, 0, 0), (0, side, 0, 0))
            y = net.add(y, x)
        x = net.relu(y)
        cin = cout
    x = net.flatten(net.global_average(x))
    net.output(net.dense(x, "fc", 64, 10), "output")
    return net


def base_cnn_atreides():
    net = Net("base-cnn-atreides")
    x = net.input(-1, 3, 32, 32, **ATREIDES)
    cin = 3
    for i, cout in enumerate([32, 64, 128, 256], 1):
        kernel = 5 if i == 1 else 3
        x = net.conv(x, f"conv{i}", cin, cout, kernel, pad=kernel // 2)
        x = net.bn(net.relu(net.max_pool(x, 2, 2)), f"bn{i}", cout)
        cin = cout
    x = net.relu(net.dense(net.flatten(x), "fc1", 1024, 256))
    net.output(net.dense(x, "fc2", 256, 10), "output")
    return net


def cifar10_cnn_winml():
    net = Net("cifar10-cnn-winml")
    x = net.input(-1, 3, 32, 32, **rgb([0.5] * 3, [0.5] * 3))
    for i, cin, cout in (1, 3, 12), (2, 12, 12), (4, 12, 24), (5, 24, 24):
        if i == 4:
            x = net.max_pool(x, 2, 2)
        x = net.conv(x, f"conv{i}", cin, cout, 5, pad=1)
        x = net.relu(net.bn(x, f"bn{i}", cout))
    net.output(net.dense(net.flatten(x), "fc1", 2400, 10), "output")
    return net


def cifar_base_kw():
    """An nn.Sequential: names are positions in it."""
    net = Net("cifar_base_kw")
    x = net.input(-1, 3, 32, 32,
                  **rgb([0.485, 0.456, 0.406], [0.225] * 3))
    x = net.relu(net.conv(x, "0", 3, 8, 4, 2, 1))
    x = net.relu(net.conv(x, "2", 8, 16, 4, 2, 1))
    x = net.relu(net.dense(net.flatten(x), "5", 1024, 100))
    net.output(net.dense(x, "7", 100, 10), "output")
    return net


def resnet_2b():
    net = Net("resnet_2b")
    x = net.input(-1, 3, 32, 32, **rgb([0.4914, 0.4822, 0.4465],
                                       [0.2471, 0.2435, 0.2616]))
    x = net.relu(net.conv(x, "conv1", 3, 8, 3, 2, 1))
    for i, (cin, stride) in enumerate([(8, 2), (16, 1)]):
        name = f"layer1.{i}"
        y = net.relu(net.conv(x, name + ".conv1", cin, 16, 3, stride, 1))
        y = net.conv(y, name + ".conv2", 16, 16, 3, 1, 1)
        if stride == 2:
            x = net.conv(x, name + ".shortcut.0", cin, 16, 1, stride)
        x = net.relu(net.add(y, x))
    x = net.relu(net.dense(net.flatten(x), "linear1", 1024, 100))
    net.output(net.dense(x, "linear2", 100, 10), "output")
    return net


FACE = dict(policy="none", mean=[127.5] * 3, std=[128.0] * 3)


def mtcnn_pnet():
    """Fully convolutional: any picture of at least 12x12."""
    net = Net("mtcnn-pnet")
    x = net.input(-1, 3, -1, -1, **FACE)
    x = net.prelu(net.conv(x, "conv1", 3, 10, 3), "prelu1", 10)
    x = net.max_pool(x, 2, 2, ceil_mode=True)
    x = net.prelu(net.conv(x, "conv2", 10, 16, 3), "prelu2", 16)
    x = net.prelu(net.conv(x, "conv3", 16, 32, 3), "prelu3", 32)
    net.output(net.conv(x, "conv4_2", 32, 4, 1), "boxes")
    net.output(net.softmax(net.conv(x, "conv4_1", 32, 2, 1), 1), "scores")
    return net


def mtcnn_rnet():
    """The row of dense4 runs over W, H, C."""
    net = Net("mtcnn-rnet")
    x = net.input(-1, 3, 24, 24, **FACE)
    x = net.prelu(net.conv(x, "conv1", 3, 28, 3), "prelu1", 28)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    x = net.prelu(net.conv(x, "conv2", 28, 48, 3), "prelu2", 48)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    x = net.prelu(net.conv(x, "conv3", 48, 64, 2), "prelu3", 64)
    x = net.flatten(net.transpose(x, 0, 3, 2, 1))
    x = net.prelu(net.dense(x, "dense4", 576, 128), "prelu4", 128, False)
    net.output(net.dense(x, "dense5_2", 128, 4), "boxes")
    net.output(net.softmax(net.dense(x, "dense5_1", 128, 2), 1), "scores")
    return net


def waifu2x_vgg7():
    """No padding: the output is 14 pixels smaller."""
    net = Net("waifu2x-vgg7")
    x = net.input(-1, 3, -1, -1, policy="none", scale=1 / 255)
    widths = [3, 32, 32, 64, 64, 128, 128, 3]
    for i in range(7):
        x = net.conv(x, f"conv{i + 1}", widths[i], widths[i + 1], 3,
                     weight="W", bias_name="b", separator="/")
        if i < 6:
            x = net.leaky(x)
    net.output(x, "output")
    return net


def waifu2x_resnet10():
    """No padding: shortcuts are cropped, the output is 26 pixels smaller."""
    net = Net("waifu2x-resnet10")
    chainer = dict(weight="W", bias_name="b", separator="/")

    def crop(x, n):
        return net.pad(x, (0, 0, -n, -n), (0, 0, -n, -n))

    x = net.input(-1, 1, -1, -1, policy="none", color="gray", scale=1 / 255)
    x = net.leaky(net.conv(x, "conv_pre", 1, 64, 3, **chainer))
    first = x
    for i in range(1, 6):
        y = net.leaky(net.conv(x, f"res{i}/conv1", 64, 64, 3, **chainer))
        y = net.leaky(net.conv(y, f"res{i}/conv2", 64, 64, 3, **chainer))
        x = net.add(y, crop(x, 2))
    x = net.leaky(net.conv(x, "conv_bridge", 64, 64, 3, **chainer))
    x = net.add(x, crop(first, 11))
    net.output(net.conv(x, "conv_post", 64, 1, 3, **chainer), "output")
    return net


def keras_squeezenet():
    """SqueezeNet 1.1 without its classifier: ImageNet features."""
    net = Net("keras-squeezenet-notop")
    x = net.input(-1, 3, 227, 227, color="bgr",
                  mean=[103.939, 116.779, 123.68])
    x = net.max_pool(net.relu(net.conv(x, "conv1", 3, 64, 3, 2)), 3, 2)
    cin = 64
    for i in range(2, 10):
        squeeze, expand = 16 * (i // 2), 64 * (i // 2)
        name = f"fire{i}"
        x = net.relu(net.conv(x, name + "/squeeze1x1", cin, squeeze, 1))
        parts = [net.relu(net.conv(x, name + "/expand1x1", squeeze, expand,
                                   1)),
                 net.relu(net.conv(x, name + "/expand3x3", squeeze, expand, 3,
                                   pad=1))]
        x, cin = net.concat(parts), 2 * expand
        if i in (3, 5):
            x = net.max_pool(x, 3, 2)
    net.output(x, "output")
    return net


# -- face detectors -----------------------------------------------------

def boxes(net, x, per_place):
    """N,A*k,H,W to N,H*W*A,k, as single-shot detectors have it."""
    return net.reshape(net.transpose(x, 0, 2, 3, 1), 0, -1, per_place)


def ultraface(rfb):
    net = Net("ultraface-rfb-320" if rfb else "ultraface-slim-320")
    x = net.input(-1, 3, 240, 320, mean=[127.0] * 3, std=[128.0] * 3)

    def conv_bn(x, conv, bn, cin, cout, kernel, act=True, **more):
        x = net.conv(x, conv, cin, cout, kernel, bias=False, **more)
        x = net.bn(x, bn, cout)
        return net.relu(x) if act else x

    def depthwise(x, name, cin, cout, stride):
        x = conv_bn(x, name + ".0", name + ".1", cin, cin, 3, stride=stride,
                    pad=1, groups=cin)
        return conv_bn(x, name + ".3", name + ".4", cin, cout, 1)

    def basic(x, name, cin, cout, kernel, act=True, **more):
        return conv_bn(x, name + ".conv", name + ".bn", cin, cout, kernel,
                       act, **more)

    def receptive_field(x, name):
        """Three branches of growing dilation, and a shortcut."""
        parts = []
        for branch, dilation in enumerate((2, 3, 5)):
            path = f"{name}.branch{branch}"
            y = basic(x, path + ".0", 64, 8, 1, False)
            cin, last = 8, 2
            if branch == 2:
                y = basic(y, path + ".1", 8, 12, 3, pad=1)
                cin, last = 12, 3
            y = basic(y, f"{path}.{last - 1}", cin, 16, 3, pad=1)
            parts.append(basic(y, f"{path}.{last}", 16, 16, 3, False,
                               pad=dilation, dilation=dilation))
        y = basic(net.concat(parts), name + ".ConvLinear", 48, 64, 1, False)
        return net.relu(net.add(y, basic(x, name + ".shortcut", 64, 64, 1,
                                         False)))

    def separable(x, name, cin, cout, stride=1):
        x = net.conv(x, name + ".0", cin, cin, 3, stride, 1, groups=cin)
        return net.conv(net.relu(x), name + ".2", cin, cout, 1)

    scores, places = [], []

    def heads(x, i, channels, anchors):
        for parts, kind, size in ((scores, "classification", 2),
                                  (places, "regression", 4)):
            name = f"{kind}_headers.{i}"
            if i < 3:
                y = separable(x, name, channels, anchors * size)
            else:
                y = net.conv(x, name, channels, anchors * size, 3, pad=1)
            parts.append(boxes(net, y, size))

    x = conv_bn(x, "base_net.0.0", "base_net.0.1", 3, 16, 3, stride=2, pad=1)
    layers = [(16, 32, 1), (32, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1),
              (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
              (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    for i, (cin, cout, stride) in enumerate(layers, 1):
        if i == 7 and rfb:
            x = receptive_field(x, "base_net.7")
        else:
            x = depthwise(x, f"base_net.{i}", cin, cout, stride)
        if i in (7, 10, 12):
            index = (7, 10, 12).index(i)
            heads(x, index, cout, (3, 2, 2)[index])
    x = net.relu(net.conv(x, "extras.0.0", 256, 64, 1))
    x = net.relu(separable(x, "extras.0.2", 64, 256, 2))
    heads(x, 3, 256, 3)
    net.output(net.softmax(net.concat(scores), 2), "scores")
    net.output(net.concat(places), "boxes")
    return net


def blazeface():
    net = Net("blazeface")
    x = net.input(-1, 3, 128, 128, mean=[127.5] * 3, std=[127.5] * 3)

    def block(x, name, cin, cout, stride=1):
        y = x
        if stride == 2:
            y = net.pad(x, (0, 0, 0, 0), (0, 0, 2, 2))
            x = net.max_pool(x, 2, 2)
        y = net.conv(y, name + ".convs.0", cin, cin, 3, stride,
                     0 if stride == 2 else 1, groups=cin)
        y = net.conv(y, name + ".convs.1", cin, cout, 1)
        if cout > cin:
            x = net.pad(x, (0, 0, 0, 0), (0, cout - cin, 0, 0))
        return net.relu(net.add(y, x))

    x = net.pad(x, (0, 0, 1, 1), (0, 0, 2, 2))
    x = net.relu(net.conv(x, "backbone1.0", 3, 24, 5, 2))
    widths = [24, 24, 28, 32, 36, 42, 48, 56, 64, 72, 80, 88]
    for i in range(11):
        x = block(x, f"backbone1.{i + 2}", widths[i], widths[i + 1],
                  2 if i in (2, 5) else 1)
    y = block(x, "backbone2.0", 88, 96, 2)
    for i in range(1, 5):
        y = block(y, f"backbone2.{i}", 96, 96)
    for kind, size, name in (("regressor", 16, "boxes"),
                             ("classifier", 1, "scores")):
        parts = [net.conv(x, kind + "_8", 88, 2 * size, 1),
                 net.conv(y, kind + "_16", 96, 6 * size, 1)]
        net.output(net.concat([boxes(net, p, size) for p in parts]), name)
    return net


def retinaface():
    """Any size that is a multiple of 32; here VGA, as its authors test."""
    net = Net("retinaface-mobilenet0.25")
    x = net.input(-1, 3, 480, 640, color="bgr", mean=[104.0, 117.0, 123.0])

    def conv_bn(x, name, cin, cout, kernel, act=True, **more):
        x = net.conv(x, name + ".0", cin, cout, kernel, bias=False,
                     pad=kernel // 2, **more)
        x = net.bn(x, name + ".1", cout)
        return net.leaky(x) if act else x

    def depthwise(x, name, cin, cout, stride):
        x = conv_bn(x, name, cin, cin, 3, stride=stride, groups=cin)
        x = net.conv(x, name + ".3", cin, cout, 1, bias=False)
        return net.leaky(net.bn(x, name + ".4", cout))

    def upsample(x):
        return net.node("resize", [x], mode="nearest", coord="asymmetric",
                        nearest="floor", scale=[1, 1, 2, 2])

    def context(x, name):
        a = conv_bn(x, name + ".conv3X3", 64, 32, 3, False)
        b = conv_bn(x, name + ".conv5X5_1", 64, 16, 3)
        c = conv_bn(b, name + ".conv7X7_2", 16, 16, 3)
        b = conv_bn(b, name + ".conv5X5_2", 16, 16, 3, False)
        c = conv_bn(c, name + ".conv7x7_3", 16, 16, 3, False)
        return net.relu(net.concat([a, b, c]))

    x = conv_bn(x, "body.stage1.0", 3, 8, 3, stride=2)
    stages = [(1, [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2),
                   (64, 64, 1)]),
              (2, [(64, 128, 2)] + [(128, 128, 1)] * 5),
              (3, [(128, 256, 2), (256, 256, 1)])]
    maps = []
    for stage, blocks in stages:
        for i, (cin, cout, stride) in enumerate(blocks):
            x = depthwise(x, f"body.stage{stage}.{i + (stage == 1)}", cin,
                          cout, stride)
        maps.append(conv_bn(x, f"fpn.output{stage}", cout, 64, 1))
    maps[1] = conv_bn(net.add(maps[1], upsample(maps[2])),
                      "fpn.merge2", 64, 64, 3)
    maps[0] = conv_bn(net.add(maps[0], upsample(maps[1])),
                      "fpn.merge1", 64, 64, 3)
    maps = [context(m, f"ssh{i + 1}") for i, m in enumerate(maps)]
    for head, size, name in (("BboxHead", 4, "boxes"),
                             ("ClassHead", 2, "scores"),
                             ("LandmarkHead", 10, "landmarks")):
        parts = [boxes(net, net.conv(m, f"{head}.{i}.conv1x1", 64, 2 * size,
                                     1), size) for i, m in enumerate(maps)]
        y = net.concat(parts)
        net.output(net.softmax(y, 2) if name == "scores" else y, name)
    return net


NETS = {
    "mnist-cnn-burn": mnist_cnn_burn,
    "mnist-cnn-jq": mnist_cnn_jq,
    "resnet20-atreides": lambda: cifar10_atreides(True),
    "plainnet20-atreides": lambda: cifar10_atreides(False),
    "base-cnn-atreides": base_cnn_atreides,
    "cifar10-cnn-winml": cifar10_cnn_winml,
    "cifar_base_kw": cifar_base_kw,
    "resnet_2b": resnet_2b,
    "mtcnn-pnet": mtcnn_pnet,
    "mtcnn-rnet": mtcnn_rnet,
    "waifu2x-vgg7": waifu2x_vgg7,
    "waifu2x-resnet10": waifu2x_resnet10,
    "keras-squeezenet-notop": keras_squeezenet,
    "ultraface-slim-320": lambda: ultraface(False),
    "ultraface-rfb-320": lambda: ultraface(True),
    "blazeface": blazeface,
    "retinaface-mobilenet0.25": retinaface,
}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        here, "..", "arch")
    for name, make in NETS.items():
        make().write(folder, name)


main()
