#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small TensorFlow graphs that use every operator, with inputs and outputs.

    tensorflow_models.py FOLDER [--saved]
    tensorflow_models.py --seeds FOLDER    those that are kept in tests/data

Each graph NAME is written as the frozen graph NAME.pb, with its inputs and
outputs in TensorFlow's own order of axes in NAME.npz (input0, ..., output0,
...; inputs in the order of their placeholders).  --saved adds SavedModels,
FOLDER/NAME/saved_model.pb with FOLDER/NAME.npz.  tests/unit/weights/tensorflow/graphs
runs the graphs when the environment names the folder in TENSORFLOW_FILES.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

v1, raw = tf.compat.v1, tf.raw_ops
random = np.random.default_rng(1)


def w(*shape, scale=0.5):
    return tf.constant(
        random.standard_normal(shape, dtype=np.float32) * np.float32(scale))


CASES = {}


def case(*shapes, fixed=False, positive=False):
    """A graph of one function; the batch is free unless fixed."""
    def add(make):
        CASES[make.__name__] = (shapes, fixed, positive, make)
        return make
    return add


def same_valid(name, make, *shapes):
    for padding in ("SAME", "VALID"):
        def one(*x, padding=padding):
            return make(*x, padding)
        one.__name__ = f"{name}_{padding.lower()}"
        case(*shapes)(one)


# ---- operators that pick --------------------------------------------------
@case((2, 3, 4))
def seed_select(x):
    """One of each: a long row of sums."""
    at = tf.constant([[0, 1], [0, 2]])
    t = raw.TopKV2(input=x, k=2)
    one = tf.one_hot(raw.TopKV2(input=x, k=1).indices[:, :, 0], 4, 3.0, -1.0)
    y = tf.cumsum(x, 2, exclusive=True) + tf.cumsum(x, 1, reverse=True) + one
    y += raw.ReverseV2(tensor=x, axis=[1, 2])
    y += tf.cos(x) * tf.sin(x) + tf.atan(x) + tf.tan(x / 4)
    y += tf.einsum("nij,jk->nik", x, w(4, 4))
    y += tf.cast(tf.reduce_any(x > 1, 2, keepdims=True), tf.float32)
    y += tf.cast(tf.reduce_all(x > -1, 1, keepdims=True), tf.float32)
    y += tf.reduce_sum(tf.gather_nd(tf.transpose(x, [1, 2, 0]), at))
    return y * tf.reduce_sum(t.values, 2, keepdims=True)


# ---- convolutions ---------------------------------------------------------
same_valid("conv", lambda x, p: tf.nn.conv2d(x, w(3, 3, 5, 4), 1, p),
           (2, 7, 9, 5))
same_valid("conv_stride", lambda x, p: tf.nn.conv2d(x, w(3, 2, 4, 6), 2, p),
           (2, 8, 9, 4))
same_valid("conv_dilated",
           lambda x, p: tf.nn.conv2d(x, w(3, 3, 3, 4), 1, p, dilations=2),
           (2, 9, 11, 3))
same_valid("depthwise",
           lambda x, p: tf.nn.depthwise_conv2d(x, w(3, 3, 4, 2), [1, 2, 2, 1], p),
           (2, 8, 7, 4))
same_valid("max_pool", lambda x, p: tf.nn.max_pool2d(x, 3, 2, p), (2, 8, 9, 3))
same_valid("avg_pool", lambda x, p: tf.nn.avg_pool2d(x, 3, 2, p), (2, 8, 9, 3))


@case((2, 8, 9, 4))
def conv_groups(x):
    return tf.nn.conv2d(x, w(3, 3, 2, 6), 1, "SAME")


@case((2, 8, 9, 3))
def conv_explicit(x):
    return tf.nn.conv2d(x, w(3, 3, 3, 2), 2, [[0, 0], [1, 2], [0, 1], [0, 0]])


@case((2, 4, 5, 3), (3, 3, 3, 2), fixed=True)
def conv_computed_filter(x, f):
    return tf.nn.conv2d(x, f, 1, "SAME")


def transposed(name, size, kernel, stride, padding):
    def one(x):
        n = tf.shape(x)[0]
        return raw.Conv2DBackpropInput(
            input_sizes=tf.stack([n, *size, 5]), filter=w(kernel, kernel, 5, 3),
            out_backprop=x, strides=[1, stride, stride, 1], padding=padding)
    one.__name__ = name
    case((2, 4, 5, 3))(one)


transposed("transposed_same", (8, 10), 3, 2, "SAME")
transposed("transposed_same_odd", (7, 9), 3, 2, "SAME")
transposed("transposed_same_small", (8, 10), 1, 2, "SAME")
transposed("transposed_valid", (9, 11), 3, 2, "VALID")
transposed("transposed_valid_more", (10, 12), 3, 2, "VALID")


@case((2, 4, 5, 3))
def transposed_free(x):
    s = tf.shape(x)
    return tf.nn.conv2d_transpose(x, w(4, 4, 5, 3),
                                  tf.stack([s[0], s[1] * 2, s[2] * 2, 5]), 2,
                                  "SAME")


# ---- normalisation --------------------------------------------------------
def norm(name, op, **more):
    def one(x):
        return op(x=x, scale=w(3), offset=w(3), mean=w(3),
                  variance=tf.abs(w(3)) + 0.5, epsilon=0.01, is_training=False,
                  **more)[0]
    one.__name__ = name
    case((2, 4, 5, 3))(one)


norm("batch_norm", raw.FusedBatchNorm)
norm("batch_norm_3", raw.FusedBatchNormV3)


@case((2, 4, 5, 3))
def batch_norm_training(x):
    return raw.FusedBatchNormV3(x=x, scale=w(3), offset=w(3), mean=[],
                                variance=[], is_training=True)[0]


@case((2, 4, 5, 9))
def lrn(x):
    return tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.7)


@case((2, 4, 5, 3))
def batch_norm_spelt_out(x):
    inv = tf.math.rsqrt(tf.abs(w(3)) + 0.01) * w(3)
    return x * inv + (w(3) - w(3) * inv)


# ---- element by element ---------------------------------------------------
FUNCTIONS = {
    "abs": tf.abs, "neg": tf.negative, "relu": tf.nn.relu,
    "relu6": lambda x: tf.nn.relu6(3 * x), "elu": tf.nn.elu,
    "selu": tf.nn.selu, "leaky": tf.nn.leaky_relu,
    "leaky_alpha": lambda x: tf.nn.leaky_relu(x, 0.3), "tanh": tf.tanh,
    "sigmoid": tf.sigmoid, "exp": tf.exp, "floor": tf.floor, "ceil": tf.math.ceil,
    "round": lambda x: tf.round(2 * x), "sign": tf.sign, "square": tf.square,
    "erf": tf.math.erf, "softplus": tf.nn.softplus, "softsign": tf.nn.softsign,
    "softmax": tf.nn.softmax, "log_softmax": tf.nn.log_softmax,
    "prelu": lambda x: tf.nn.relu(x) + w(3) * (x - tf.abs(x)) * 0.5,
    "swish": lambda x: x * tf.sigmoid(x),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3) / 6,
    "floor_div": lambda x: tf.math.floordiv(x, 0.25),
    "maximum": lambda x: tf.maximum(x, 0.1),
    "minimum": lambda x: tf.minimum(x, w(5, 1)),
    "select": lambda x: tf.where(x > 0.2, x, -x),
    "not_equal": lambda x: tf.cast(tf.not_equal(x, 0), tf.float32),
    "logical": lambda x: tf.cast(
        tf.logical_or(tf.logical_and(x > 0, x < 1), tf.logical_not(x >= -1)),
        tf.float32),
    "squared_difference": lambda x: tf.math.squared_difference(x, w(3)),
    "add_n": lambda x: tf.add_n([x, x, 2 * x]),
    "cast": lambda x: tf.cast(tf.cast(3 * x, tf.int32), tf.float32),
    "tile": lambda x: tf.tile(x, [1, 2, 1, 3]),
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
}
for name, function in FUNCTIONS.items():
    def one(x, function=function):
        return function(x)
    one.__name__ = "each_" + name
    case((2, 4, 5, 3))(one)
for name in ("log", "sqrt", "rsqrt", "reciprocal"):
    def one(x, function=getattr(tf.math, name)):
        return function(x)
    one.__name__ = "each_" + name
    case((2, 4, 5, 3), positive=True)(one)


@case((2, 4, 5, 3), (2, 4, 5, 3))
def two_inputs(x, y):
    return [x + y, x * y, tf.pow(tf.abs(x) + 1, y), x / (tf.abs(y) + 1), x - y]


# ---- reductions -----------------------------------------------------------
for name in ("mean", "sum", "max", "min", "prod"):
    reduce = getattr(tf, "reduce_" + name)

    def one(x, reduce=reduce):
        return [reduce(x, [1, 2]), reduce(x, -1), reduce(x, [1, 2], keepdims=True)]
    one.__name__ = "reduce_" + name
    case((2, 4, 5, 3))(one)


@case((2, 4, 5, 3))
def arg_max(x):
    return [tf.cast(tf.argmax(x, -1), tf.float32),
            tf.cast(tf.argmin(x, 1, tf.int32), tf.float32)]


# ---- shapes ---------------------------------------------------------------
@case((2, 4, 5, 3))
def flatten(x):
    return tf.reshape(tf.nn.relu(x), [tf.shape(x)[0], -1])


@case((2, 4, 5, 3))
def reshape_many(x):
    y = tf.reshape(x, [-1, 20, 3])
    return [tf.transpose(y, [0, 2, 1]), tf.expand_dims(y, -1),
            tf.squeeze(tf.expand_dims(y, 2), [2]), tf.transpose(x, [0, 3, 1, 2])]


@case((2, 4, 6, 3))
def slices(x):
    return [x[:, 1:3], x[:, :, ::2, 1], x[..., -1], x[:, ::-1, tf.newaxis],
            x[:, 1, 2:, :2], tf.slice(x, [0, 1, 2, 0], [-1, 2, 3, -1])]


@case((2, 4, 6, 4))
def parts(x):
    a, b = tf.split(x, 2, -1)
    c, d, e = tf.split(x, [1, 2, -1], 2)
    return [tf.concat([a, 2 * b, a], -1), tf.concat([c, e, d], 2),
            tf.stack([a, b], 1), tf.unstack(x, axis=1)[2]]


@case((2, 4, 5, 3))
def pads(x):
    p = [[0, 0], [1, 2], [0, 1], [0, 0]]
    return [tf.pad(x, p), tf.pad(x, p, constant_values=1.5),
            tf.pad(x, p, "REFLECT")]


@case((2, 4, 5, 3))
def pad_conv(x):
    x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.nn.conv2d(x, w(3, 3, 3, 4), 2, "VALID")


@case((2, 4, 5, 3))
def gathers(x):
    return [tf.gather(x, [2, 0, 1], axis=3), tf.gather(x, 1, axis=1)]


@case((2, 3))
def fills(x):
    return x + tf.fill([tf.shape(x)[1]], 2.5) + tf.cast(tf.range(3), tf.float32)


@case((2, 4, 6, 8))
def blocks(x):
    return [tf.nn.depth_to_space(x, 2), tf.nn.space_to_depth(x, 2)]


@case((2, 4, 7, 9, 2))
def volumes(x):
    """Volumes, batches of blocks, shifts, exp(x) - 1 and log(1 + x)."""
    plane = x[:, 0]
    y = raw.SpaceToBatchND(input=plane, block_shape=[2, 3],
                           paddings=[[1, 2], [2, 1]])
    y = tf.nn.conv2d(y, w(2, 2, 2, 3), 1, "VALID")
    y = raw.BatchToSpaceND(input=y, block_shape=[2, 3],
                           crops=[[0, 1], [1, 0]])
    return [tf.nn.conv3d(x, w(3, 2, 3, 2, 3), [1, 1, 2, 1, 1], "SAME"),
            tf.nn.conv3d(x, w(2, 2, 2, 2, 4), [1] * 5, "VALID"),
            tf.nn.conv3d_transpose(x, w(3, 2, 3, 3, 2),
                                   [tf.shape(x)[0], 8, 14, 18, 3],
                                   [1, 2, 2, 2, 1], "SAME"),
            tf.nn.conv3d_transpose(x, w(3, 2, 4, 3, 2),
                                   [tf.shape(x)[0], 6, 14, 20, 3],
                                   [1, 1, 2, 2, 1], "VALID"),
            tf.nn.max_pool3d(x, 2, 2, "SAME"),
            tf.nn.avg_pool3d(x, [2, 3, 2], 1, "VALID"), y,
            tf.roll(plane, [1, -2], [1, 2]), tf.math.expm1(plane),
            tf.math.log1p(tf.abs(plane))]


# ---- resizing -------------------------------------------------------------
for kind in ("Bilinear", "NearestNeighbor"):
    for mode in ("", "align_corners", "half_pixel_centers"):
        def one(x, kind=kind, mode=mode):
            op = getattr(raw, "Resize" + kind)
            more = {mode: True} if mode else {}
            return [op(images=x, size=[8, 10], **more),
                    op(images=x, size=[7, 3], **more),
                    op(images=x, size=tf.shape(x)[1:3] * 2, **more)]
        one.__name__ = f"resize_{kind.lower()}_{mode or 'plain'}"
        case((2, 4, 5, 3))(one)


# ---- products -------------------------------------------------------------
@case((2, 6))
def matmuls(x):
    return [tf.matmul(x, w(6, 4)), tf.matmul(x, w(4, 6), transpose_b=True),
            tf.nn.bias_add(tf.matmul(x, w(6, 5)), w(5))]


@case((2, 4, 6), (2, 4, 6))
def batch_matmul(x, y):
    return [tf.matmul(x, y, transpose_b=True), tf.matmul(x, w(6, 3))]


# ---- networks -------------------------------------------------------------
@case((2, 16, 16, 3))
def network(x):
    x = x / 127.5 - 1.0
    x = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(x, w(3, 3, 3, 8), 2, "SAME"), w(8)))
    y = tf.nn.depthwise_conv2d(x, w(3, 3, 8, 1), [1, 1, 1, 1], "SAME")
    y = raw.FusedBatchNormV3(x=y, scale=w(8), offset=w(8), mean=w(8),
                             variance=tf.abs(w(8)) + 0.5, is_training=False)[0]
    x = tf.concat([x, tf.nn.relu(y)], 3)
    x = x + tf.nn.conv2d(x, w(1, 1, 16, 16), 1, "SAME")
    x = tf.reduce_mean(tf.nn.max_pool2d(x, 2, 2, "SAME"), [1, 2])
    return tf.nn.softmax(tf.matmul(x, w(16, 5)) + w(5))


@case((2, 8, 8, 3))
def segmentation(x):
    a = tf.nn.relu(tf.nn.conv2d(x, w(3, 3, 3, 6), 2, "SAME"))
    b = tf.image.resize(a, [8, 8])
    return tf.sigmoid(tf.nn.conv2d(tf.concat([x, b], -1), w(1, 1, 9, 2), 1, "SAME"))


def write(folder, name, graph_def, inputs, outputs):
    with open(f"{folder}/{name}.pb", "wb") as f:
        f.write(graph_def.SerializeToString(deterministic=True))
    arrays = {f"input{i}": x for i, x in enumerate(inputs)}
    arrays.update({f"output{i}": y for i, y in enumerate(outputs)})
    np.savez(f"{folder}/{name}.npz", **arrays)


def make(folder, name):
    shapes, fixed, positive, function = CASES[name]
    x = [random.standard_normal(s, dtype=np.float32) for s in shapes]
    if positive:
        x = [np.abs(v) + np.float32(0.1) for v in x]
    with tf.Graph().as_default() as g, v1.Session() as session:
        places = [v1.placeholder(tf.float32, s if fixed else (None,) + s[1:],
                                 f"input{i}") for i, s in enumerate(shapes)]
        y = function(*places)
        y = y if isinstance(y, list) else [y]
        y = [tf.identity(t, f"output{i}") for i, t in enumerate(y)]
        values = session.run(y, dict(zip(places, x)))
        graph_def = g.as_graph_def()
    write(folder, name, graph_def, x, values)


def make_channels_first(folder):
    """A graph of NCHW operators, whose outputs come from its NHWC twin."""
    kernel, bias = random.standard_normal((3, 3, 3, 4), dtype=np.float32), \
        random.standard_normal(4, dtype=np.float32)
    x = random.standard_normal((2, 3, 8, 9), dtype=np.float32)
    mean = random.standard_normal(4, dtype=np.float32)
    last = x.transpose(0, 2, 3, 1)
    y = tf.nn.bias_add(tf.nn.conv2d(last, kernel, 2, "SAME"), bias)
    y = raw.FusedBatchNormV3(x=y, scale=bias, offset=mean, mean=mean,
                             variance=np.abs(bias), is_training=False)[0]
    y = tf.nn.avg_pool2d(tf.nn.relu(y), 3, 2, "SAME")
    y = tf.nn.depth_to_space(y, 2)
    with tf.Graph().as_default() as g:
        t = v1.placeholder(tf.float32, (None, 3, 8, 9), "input0")
        t = raw.Conv2D(input=t, filter=kernel, strides=[1, 1, 2, 2],
                       padding="SAME", data_format="NCHW")
        t = raw.BiasAdd(value=t, bias=bias, data_format="NCHW")
        t = raw.FusedBatchNormV3(x=t, scale=bias, offset=mean, mean=mean,
                                 variance=np.abs(bias), is_training=False,
                                 data_format="NCHW")[0]
        t = raw.AvgPool(value=tf.nn.relu(t), ksize=[1, 1, 3, 3],
                        strides=[1, 1, 2, 2], padding="SAME",
                        data_format="NCHW")
        t = raw.DepthToSpace(input=t, block_size=2, data_format="NCHW")
        tf.identity(t, "output0")
        graph_def = g.as_graph_def()
    write(folder, "network_channels_first", graph_def, [x],
          [y.numpy().transpose(0, 3, 1, 2)])


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(w(3, 3, 3, 4))
        self.dense = [tf.Variable(w(4, 5)), tf.Variable(w(5))]
        self.mean = tf.Variable(w(3))

    @tf.function
    def body(self, x):
        return tf.nn.relu(tf.nn.conv2d(x - self.mean, self.kernel, 2, "SAME"))

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 3), name="picture")])
    def serve(self, picture):
        y = self.body(picture) + self.body(picture * 0.5)
        y = tf.reduce_mean(y, [1, 2])
        return {"scores": tf.nn.softmax(tf.matmul(y, self.dense[0]) + self.dense[1]),
                "features": y}


def make_saved(folder):
    net = Net()
    x = random.standard_normal((2, 8, 8, 3), dtype=np.float32)
    tf.saved_model.save(net, f"{folder}/saved", signatures=net.serve)
    y = net.serve(x)
    np.savez(f"{folder}/saved.npz", input0=x, output0=y["features"],
             output1=y["scores"])


if len(sys.argv) < 2:
    sys.exit(__doc__)
if sys.argv[1] == "--seeds":
    make(sys.argv[2], "network")
    os.rename(f"{sys.argv[2]}/network.pb", f"{sys.argv[2]}/seed_graph.pb")
    os.rename(f"{sys.argv[2]}/network.npz", f"{sys.argv[2]}/seed_graph.npz")
    make(sys.argv[2], "seed_select")
    os.makedirs(f"{sys.argv[2]}/tensorflow", exist_ok=True)
    make(f"{sys.argv[2]}/tensorflow", "volumes")
    sys.exit()
FOLDER = sys.argv[1]
os.makedirs(FOLDER, exist_ok=True)
for NAME in CASES:
    make(FOLDER, NAME)
make_channels_first(FOLDER)
if "--saved" in sys.argv:
    make_saved(FOLDER)
