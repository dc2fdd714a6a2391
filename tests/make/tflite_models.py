#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small TensorFlow Lite models, operator by operator, with inputs and outputs.

    tflite_models.py FOLDER [--applications]
    tflite_models.py --seeds FOLDER    the small ones that are kept in tests/data

Each model NAME is written as NAME.tflite, with its inputs and outputs in the
file's own order of axes in NAME.npz (input0, ..., output0, ...), as the
interpreter's reference kernels give them.  --applications adds networks of
keras.applications with random weights.  tests/unit/weights/tflite/files
runs the models when the environment names the folder in TFLITE_FILES.
"""
import os
import sys

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

SEEDS = sys.argv[1] == "--seeds"
FOLDER = sys.argv[2] if SEEDS else sys.argv[1]
rng = np.random.default_rng(1)
KERNELS = tf.lite.experimental.OpResolverType.BUILTIN_REF


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def write(name, data, inputs):
    """The file, and what the reference kernels make of the inputs."""
    path = os.path.join(FOLDER, name)
    open(path + ".tflite", "wb").write(data)
    try:
        it = tf.lite.Interpreter(model_content=data,
                                 experimental_op_resolver_type=KERNELS,
                                 num_threads=1)
    except ValueError:  # operators without a reference kernel
        it = tf.lite.Interpreter(model_content=data, num_threads=1)
    for d, x in zip(it.get_input_details(), inputs):
        if list(d["shape"]) != list(x.shape):
            it.resize_tensor_input(d["index"], x.shape)
    it.allocate_tensors()
    for d, x in zip(it.get_input_details(), inputs):
        it.set_tensor(d["index"], x)
    it.invoke()
    arrays = {"input%d" % i: x for i, x in enumerate(inputs)}
    for i, d in enumerate(it.get_output_details()):
        arrays["output%d" % i] = it.get_tensor(d["index"])
    np.savez(path + ".npz", **arrays)


def convert(f, shapes, quantise=None, free=False):
    spec = [tf.TensorSpec(([None] if free else [1]) + list(s[1:]), tf.float32)
            for s in shapes]
    g = tf.function(f).get_concrete_function(*spec)
    c = tf.lite.TFLiteConverter.from_concrete_functions([g])
    if quantise == "f16":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
        c.target_spec.supported_types = [tf.float16]
    elif quantise == "hybrid":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
    elif quantise:
        c.optimizations = [tf.lite.Optimize.DEFAULT]
        c.representative_dataset = lambda: (
            [f32(*([1] + list(s[1:]))) for s in shapes] for _ in range(16))
        c.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        c.inference_input_type = c.inference_output_type = quantise
    return c.convert()


def model(name, f, *shapes, quantise=None, free=False, positive=False):
    try:
        make(name, f, shapes, quantise, free, positive)
    except Exception as e:  # one that this version does not convert or run
        print("left out:", name, str(e)[:200])
        for end in (".tflite", ".npz"):
            if os.path.exists(os.path.join(FOLDER, name + end)):
                os.remove(os.path.join(FOLDER, name + end))


def make(name, f, shapes, quantise, free, positive):
    integer = quantise in (tf.int8, tf.uint8)
    data = convert(f, shapes, quantise, free)
    inputs = []
    for s in shapes:
        x = np.abs(f32(*s)) + np.float32(0.1) if positive else f32(*s)
        if integer:
            x = rng.integers(0, 256, s, dtype=np.uint8)
            x = x if quantise == tf.uint8 else (x.astype(int) - 128).astype(np.int8)
        inputs.append(x)
    write(name, data, inputs)


def network(x):
    """Most layers of a small classifier."""
    c = x.shape[-1]
    n = np.random.default_rng(7)
    w = lambda *s: tf.constant(n.standard_normal(s, dtype=np.float32) / 4)
    x = tf.nn.relu6(tf.nn.conv2d(x, w(3, 3, c, 8), 2, "SAME") + w(8))
    y = tf.nn.relu(tf.nn.depthwise_conv2d(x, w(3, 3, 8, 1), [1] * 4, "SAME") + w(8))
    y = tf.nn.conv2d(y, w(1, 1, 8, 8), 1, "SAME") + w(8)
    x = tf.nn.max_pool2d(x + y, 2, 2, "VALID")
    x = tf.concat([x, tf.nn.avg_pool2d(x, 3, 1, "SAME")], -1)
    x = tf.reduce_mean(x, [1, 2])
    return tf.nn.softmax(tf.matmul(x, w(16, 5)) + w(5))


def operators():
    p = (2, 7, 6, 4)
    k = lambda *s: tf.constant(f32(*s))
    for act in ("relu", "relu6", "tanh", "sigmoid", "elu", "leaky_relu", "gelu",
                "silu", "softplus", "softmax", "log_softmax", "selu"):
        g = getattr(tf.nn, act, None) or getattr(tf.keras.activations, act)
        model("act_" + act, lambda x, g=g: g(x), p, free=True)
    for n in ("abs", "neg", "exp", "floor", "ceil", "round", "square", "sign"):
        model(n, lambda x, g=getattr(tf, n if n != "neg" else "negative")
              if n not in ("ceil",) else tf.math.ceil: g(x), p, free=True)
    for n in ("sqrt", "log"):
        model(n, getattr(tf.math, n), p, positive=True)
    model("rsqrt", tf.math.rsqrt, p, positive=True)
    model("hard_swish", lambda x: x * tf.nn.relu6(x + 3) / 6, p)
    for n in ("add", "subtract", "multiply", "divide", "maximum", "minimum",
              "squared_difference", "floordiv", "floormod"):
        g = getattr(tf.math, n)
        model("two_" + n, lambda x, y, g=g: g(x, y), p, p, free=True)
        model("row_" + n, lambda x, g=g: g(x, k(4)), p)
        model("conv_row_" + n,
              lambda x, g=g: g(tf.nn.conv2d(x, k(1, 1, 4, 4), 1, "SAME"),
                               k(7, 1, 4)), p)
    for n in ("mean", "sum", "max", "min", "prod"):
        for axes, keep in (([1, 2], True), ([1, 2], False), ([3], False),
                           ([1], False), ([2, 3], True)):
            g = getattr(tf, "reduce_" + n)
            model("reduce_%s_%s%d" % (n, "".join(map(str, axes)), keep),
                  lambda x, g=g, axes=axes, keep=keep: tf.nn.relu(g(
                      tf.nn.conv2d(x, k(1, 1, 4, 4), 1, "SAME"), axes, keep)), p)
    for pad in ("SAME", "VALID"):
        for s in (1, 2, 3):
            model("conv_%s%d" % (pad, s),
                  lambda x, s=s, pad=pad: tf.nn.relu(tf.nn.conv2d(
                      x, k(3, 2, 4, 5), s, pad) + k(5)), p, free=True)
            model("depthwise_%s%d" % (pad, s),
                  lambda x, s=s, pad=pad: tf.nn.depthwise_conv2d(
                      x, k(3, 3, 4, 2), [1, s, s, 1], pad), p)
            model("max_%s%d" % (pad, s),
                  lambda x, s=s, pad=pad: tf.nn.max_pool2d(x, 3, s, pad), p)
            model("avg_%s%d" % (pad, s),
                  lambda x, s=s, pad=pad: tf.nn.avg_pool2d(x, 3, s, pad), p)
            model("transposed_%s%d" % (pad, s),
                  lambda x, s=s, pad=pad: tf.nn.conv2d_transpose(
                      x, k(3, 3, 5, 4),
                      [1, 7 * s + (0 if pad == "SAME" else max(3 - s, 0)),
                       6 * s + (0 if pad == "SAME" else max(3 - s, 0)), 5],
                      s, pad), (1,) + p[1:])
        model("dilated_" + pad, lambda x, pad=pad: tf.nn.conv2d(
            x, k(3, 3, 4, 5), 1, pad, dilations=2), p)
    model("grouped", lambda x: tf.nn.conv2d(x, k(3, 3, 2, 6), 1, "SAME"), p)
    model("dense", lambda x: tf.nn.relu(tf.matmul(
        tf.reshape(x, [-1, 168]), k(168, 5)) + k(5)), p, free=True)
    model("dense_last", lambda x: tf.tensordot(x, k(4, 5), 1) + k(5), p)
    model("matmul", lambda x, y: tf.matmul(x, y, transpose_b=True),
          (2, 3, 4), (2, 5, 4))
    for size in ((14, 12), (5, 9)):
        for method in ("bilinear", "nearest"):
            model("resize_%s_%d" % (method, size[0]),
                  lambda x, size=size, method=method:
                  tf.image.resize(x, size, method), p)
            model("resize_v1_%s_%d" % (method, size[0]),
                  lambda x, size=size, method=method:
                  (tf.compat.v1.image.resize_bilinear if method == "bilinear"
                   else tf.compat.v1.image.resize_nearest_neighbor)(
                       x, size, align_corners=True), p)
    model("pad", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3], [0, 1]]), p)
    model("padv2", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3], [0, 0]],
                                    constant_values=-2.5), p)
    model("mirror", lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 3], [0, 0]],
                                     "REFLECT"), p)
    model("concat", lambda x, y: tf.concat([x, y, x * 2], 3), p, p)
    model("split", lambda x: tf.split(x, 2, 3)[1] * 2, p)
    model("split_v", lambda x: tf.split(x, [1, 2, 1], 3)[1] + 1, p)
    model("stack", lambda x, y: tf.stack([x, y], 1), (2, 3, 4), (2, 3, 4))
    model("unstack", lambda x: tf.unstack(x, axis=1)[2] * 3, (2, 3, 4))
    model("slice", lambda x: tf.slice(x, [0, 1, 2, 1], [-1, 3, 4, 2]), (1,) + p[1:])
    model("strided", lambda x: x[:, ::2, 5:1:-1, 1:], p)
    model("shrink", lambda x: x[:, 2, :, -1], p)
    model("transpose", lambda x: tf.transpose(x, [0, 2, 1, 3]), p)
    model("squeeze", lambda x: tf.squeeze(x, [1, 2]), (2, 1, 1, 5), free=True)
    model("expand", lambda x: tf.expand_dims(x, 1), (1, 4))
    model("tile", lambda x: tf.tile(x, [1, 2, 1, 3]), p)
    model("reverse", lambda x: tf.reverse(x, [1]), p)
    model("gather", lambda x: tf.gather(x, [3, 0, 2], axis=3), p)
    model("broadcast", lambda x: tf.broadcast_to(x, [2, 7, 6, 4]) + 0,
          (1, 1, 6, 1))
    model("d2s", lambda x: tf.nn.depth_to_space(x, 2), p)
    model("s2d", lambda x: tf.nn.space_to_depth(x, 2), (2, 8, 6, 3))
    model("argmax", lambda x: tf.cast(tf.argmax(x, 3), tf.float32), p)
    model("prelu", lambda x: tf.nn.relu(x) - k(4) * tf.nn.relu(-x), p)
    model("where", lambda x, y: tf.where(x > y, x, y * 2), p, p)
    model("clip", lambda x: tf.clip_by_value(x, -0.5, 0.7), p)
    model("l2", lambda x: tf.math.l2_normalize(x, 3), p)
    # The reference kernel leaves out the last channel of the window.
    global KERNELS
    KERNELS = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    model("lrn", lambda x: tf.nn.local_response_normalization(
        x, 2, 1.0, 0.5, 0.75), p)
    KERNELS = tf.lite.experimental.OpResolverType.BUILTIN_REF
    model("norm", lambda x: tf.nn.batch_normalization(
        x, k(4), tf.abs(k(4)) + 1, k(4), k(4), 1e-3), p)
    model("shape", lambda x: tf.reshape(
        x, [tf.shape(x)[0], -1, tf.shape(x)[3]]), p, free=True)
    model("flat_conv", lambda x: tf.reshape(tf.nn.conv2d(
        x, k(1, 1, 4, 3), 1, "SAME"), [-1, 7 * 6 * 3]), p, free=True)


DETECTION = """name: "TFLite_Detection_PostProcess"
attr { key: "max_detections" value { i: %d } }
attr { key: "max_classes_per_detection" value { i: %d } }
attr { key: "num_classes" value { i: 3 } }
attr { key: "nms_iou_threshold" value { f: 0.4 } }
attr { key: "nms_score_threshold" value { f: 0.55 } }
attr { key: "y_scale" value { f: 10.0 } }
attr { key: "x_scale" value { f: 10.0 } }
attr { key: "h_scale" value { f: 5.0 } }
attr { key: "w_scale" value { f: 5.0 } }
attr { key: "use_regular_nms" value { b: false } }"""


def selection():
    """Operators that pick elements, blocks, and the end of SSD networks."""
    p = (2, 8, 6, 4)
    for n in ("sin", "cos"):
        model(n, getattr(tf.math, n), p, free=True)
    model("top_k", lambda x: tf.math.top_k(x, 3)[0] * 2, p, free=True)
    model("top_k_at", lambda x: tf.cast(tf.math.top_k(x, 3)[1], tf.float32), p)
    for options in ({}, {"exclusive": True}, {"reverse": True}):
        model("cumsum" + "".join(options),
              lambda x, o=options: tf.cumsum(x, 2, **o), p, free=True)
    for axis in (-1, 1):
        model("one_hot%d" % axis, lambda x, a=axis: tf.one_hot(
            tf.cast(x * 2, tf.int32), 5, 2.0, -1.0, axis=a), (2, 3, 4))
    for i, at in enumerate(([[0, 1], [0, 2]], [[0], [0], [0]],
                            [[[0, 2, 3]], [[0, 0, 1]]])):
        model("gather_nd%d" % i,
              lambda x, at=at: tf.gather_nd(x, at) * 2, (1,) + p[1:])
    model("any", lambda x: tf.cast(tf.reduce_any(x > 1, 3), tf.float32), p)
    model("all", lambda x: tf.cast(tf.reduce_all(x > -1, 3), tf.float32), p)
    model("s2b", lambda x: tf.space_to_batch_nd(
        x, [2, 3], [[1, 1], [0, 3]]), (1,) + p[1:])
    model("b2s", lambda x: tf.batch_to_space(tf.nn.relu(tf.space_to_batch_nd(
        x, [2, 3], [[1, 1], [0, 3]])), [2, 3], [[1, 0], [2, 1]]), (1,) + p[1:])
    boxes = np.abs(f32(40, 4)) / 4 + np.float32(0.1)
    for most, per_box in ((5, 1), (60, 2)):
        detection("detection%d" % most, DETECTION % (most, per_box), boxes,
                  most * per_box)


def volumes():
    """Convolutions of volumes, as Keras' layers become them."""
    keras = tf.keras
    x = keras.Input((4, 7, 5, 2))
    y = keras.layers.Conv3D(3, (2, 3, 2), strides=(1, 2, 1), padding="same",
                            activation="relu", bias_initializer="normal")(x)
    z = [keras.layers.Conv3DTranspose(2, (3, 2, 3), strides=(2, 1, 2),
                                      padding="same",
                                      bias_initializer="normal")(y),
         keras.layers.Conv3DTranspose(2, 2, use_bias=False)(y)]
    write("volumes", tf.lite.TFLiteConverter.from_keras_model(
        keras.Model(x, z)).convert(), [f32(1, 4, 7, 5, 2)])


def detection(name, text, anchors, n):
    @tf.function(experimental_implements=text.replace("\n", " "))
    def end(boxes, scores, anchors):
        return (tf.zeros([1, n, 4]), tf.zeros([1, n]), tf.zeros([1, n]),
                tf.zeros([1]))

    f = tf.function(lambda b, s: end(b, tf.nn.sigmoid(s), anchors))
    g = f.get_concrete_function(tf.TensorSpec((1, 40, 4)),
                                tf.TensorSpec((1, 40, 4)))
    c = tf.lite.TFLiteConverter.from_concrete_functions([g], f)
    c.allow_custom_ops = True
    write(name, c.convert(), [f32(1, 40, 4), f32(1, 40, 4)])


def networks():
    q = (1, 15, 13, 3)
    model("net", network, (2,) + q[1:], free=True)
    for kind in ("f16", "hybrid", tf.int8, tf.uint8):
        name = kind if isinstance(kind, str) else kind.name
        model("net_" + name, network, q, quantise=kind)


def quantised():
    q = (1, 8, 6, 4)
    k = lambda *s: tf.constant(f32(*s))
    cases = {
        "add": lambda x: x + tf.nn.relu(x), "mul": lambda x: x * tf.nn.relu(x),
        "sub": lambda x: x - tf.nn.relu(x), "avg": lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        "max": lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
        "mean": lambda x: tf.reduce_mean(x, [1, 2]),
        "prelu": lambda x: tf.nn.relu(x) + -tf.constant(
            [[[.11, .23, .31, .47]]]) * tf.nn.relu(-x),
        "means": lambda x: tf.reduce_mean(x, [1]) / 3,
        "sigmoid": tf.nn.sigmoid, "tanh": tf.nn.tanh, "softmax": tf.nn.softmax,
        "leaky": tf.nn.leaky_relu, "hswish": lambda x: x * tf.nn.relu6(x + 3) / 6,
        "concat": lambda x: tf.concat([x, tf.nn.relu(x)], 3),
        "pad": lambda x: tf.nn.relu(tf.pad(x, [[0, 0], [1, 1], [2, 2], [0, 0]])),
        "resize": lambda x: tf.image.resize(x, [16, 12]),
        "up": lambda x: tf.image.resize(x, [11, 17]),
        "nearest": lambda x: tf.image.resize(x, [16, 12], "nearest"),
        "dense": lambda x: tf.matmul(tf.reshape(x, [1, -1]), k(192, 7)) + k(7),
        "transposed": lambda x: tf.nn.conv2d_transpose(x, k(3, 3, 5, 4), [1, 16, 12, 5], 2),
        "relu6": tf.nn.relu6, "strided": lambda x: x[:, 1:, ::2, :],
    }
    for name, f in cases.items():
        for kind in (tf.int8, tf.uint8):
            model("q_%s_%s" % (name, kind.name), f, q, quantise=kind)


def applications():
    a = tf.keras.applications
    for name, size in (("MobileNet", 96), ("MobileNetV2", 96), ("MobileNetV3Small", 96),
                       ("EfficientNetB0", 96), ("EfficientNetV2B0", 96), ("ResNet50", 64), ("DenseNet121", 64),
                       ("NASNetMobile", 64), ("Xception", 96), ("InceptionV3", 96), ("VGG11", 32)):
        if not hasattr(a, name):
            continue
        m = getattr(a, name)(weights=None, input_shape=(size, size, 3), classes=20)
        c = tf.lite.TFLiteConverter.from_keras_model(m)
        write("app_" + name, c.convert(), [f32(2, size, size, 3)])


os.makedirs(FOLDER, exist_ok=True)
if SEEDS:
    model("seed_net", network, (1, 5, 5, 1), free=True)
    model("seed_int8", network, (1, 5, 5, 1), quantise=tf.int8)
    model("seed_half", network, (1, 5, 5, 1), quantise="f16")
    for name in os.listdir(FOLDER):
        if name.startswith(("seed_net", "seed_int8", "seed_half")) and name.endswith(".npz"):
            os.remove(os.path.join(FOLDER, name))
else:
    only = [a[7:] for a in sys.argv if a.startswith("--part=")]
    for part in (networks, quantised, operators, selection, volumes):
        if not only or part.__name__ in only:
            part()
    if "--applications" in sys.argv:
        applications()
