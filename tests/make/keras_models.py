#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small Keras models that use every layer, with inputs and outputs.

    keras_models.py FOLDER [--applications]
    keras_models.py --seeds FOLDER    the small ones that are kept in tests/data

Each model NAME is written as NAME.keras, NAME.h5 and NAME.weights.h5, with its
inputs and outputs in Keras' own order of axes in NAME.npz (input0, ...,
output0, ...; batch of two).  --applications adds networks of keras.applications
with random weights.  tests/unit/weights/keras runs the models when the environment
names the folder in KERAS_FILES.

Channels-first models are run by the torch backend, because TensorFlow has no
such convolutions on a CPU.  Keras 1 and 2 files are written by hand from the
layers of Keras 3.
"""
import json
import os
import subprocess
import sys

if len(sys.argv) < 2:
    sys.exit(__doc__)
SEEDS = sys.argv[1] == "--seeds"
FOLDER = sys.argv[2] if SEEDS else sys.argv[1]
PART = next((a[7:] for a in sys.argv if a.startswith("--part=")), None)
if PART is None:
    os.makedirs(FOLDER, exist_ok=True)
    parts = [("last", "tensorflow"), ("first", "torch"),
             ("old", "tensorflow")]
    if SEEDS:
        parts = [("seeds", "tensorflow")]
    if "--applications" in sys.argv:
        parts.append(("applications", "tensorflow"))
    for name, backend in parts:
        subprocess.run([sys.executable, __file__, FOLDER, f"--part={name}"],
                       check=True, env={**os.environ,
                                        "KERAS_BACKEND": backend,
                                        "TF_CPP_MIN_LOG_LEVEL": "3"})
    sys.exit()

import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers as L  # noqa: E402

keras.utils.set_random_seed(7)
RNG = np.random.default_rng(7)


def randomise(model):
    """Weights that show mistakes: no zeros, no ones, positive variances."""
    for v in model.variables:
        if "seed" in v.path or "count" in v.path:
            continue
        shape = tuple(v.shape)
        fan = max(1, int(np.prod(shape[:-1]))) if len(shape) > 1 else 1
        value = RNG.standard_normal(shape) / np.sqrt(fan)
        if "variance" in v.path:
            value = RNG.uniform(0.5, 2, shape)
        elif "gamma" in v.path or "alpha" in v.path:
            value = RNG.uniform(0.2, 1.5, shape)
        elif len(shape) == 1:
            value = value * 0.3
        v.assign(value.astype("float32"))


def save(name, model, inputs=None, formats=("keras", "h5", "weights"),
         fill=True, reference=None):
    """reference: a model of the same layers that computes the outputs."""
    if fill:
        randomise(model)
    shapes = [tuple(t.shape) for t in model.inputs]
    if inputs is None:
        inputs = [RNG.standard_normal((2,) + s[1:]).astype("float32")
                  for s in shapes]
    if reference is not None:
        reference.set_weights([np.asarray(
            keras.ops.convert_to_numpy(keras.ops.cast(w, "float32")))
            for w in model.weights])
    y = (reference or model)(inputs if len(inputs) > 1 else inputs[0],
                             training=False)
    y = keras.tree.flatten(y)
    arrays = {f"input{i}": x for i, x in enumerate(inputs)}
    arrays |= {f"output{i}": np.asarray(
        keras.ops.convert_to_numpy(t), "float32") for i, t in enumerate(y)}
    path = os.path.join(FOLDER, name)
    np.savez(path + ".npz", **arrays)
    if "keras" in formats:
        model.save(path + ".keras")
    if "h5" in formats:
        model.save(path + ".h5")
    if "weights" in formats:
        model.save_weights(path + ".weights.h5")


def multi(name, shape, made, **options):
    """One input, one output for each layer or function in made."""
    x = keras.Input(shape)
    save(name, keras.Model(x, [f(x) for f in made]), **options)


# ---- channels last ---------------------------------------------------

def convolutions():
    image = (11, 9, 4)
    multi("conv2d", image, [
        L.Conv2D(6, 3), L.Conv2D(6, 3, padding="same", activation="relu"),
        L.Conv2D(6, (1, 4), strides=2, padding="same"),
        L.Conv2D(6, 4, strides=3, padding="same", use_bias=False),
        L.Conv2D(6, 3, dilation_rate=(2, 3), padding="same"),
        L.Conv2D(6, 3, groups=2, strides=(1, 2), activation="softmax"),
        L.Conv2D(6, 1, activation="hard_sigmoid"),
        L.Conv2D(6, 2, strides=(2, 1), activation="leaky_relu")])
    made = []
    for k in (1, 2, 3, 5):
        for s in (1, 2, 3):
            for padding in ("same", "valid"):
                made.append(L.Conv2DTranspose(3, (k, 4), strides=s,
                                              padding=padding))
    made += [L.Conv2DTranspose(3, 3, strides=2, padding="same",
                               output_padding=1, use_bias=False),
             L.Conv2DTranspose(3, 4, strides=3, padding="valid",
                               output_padding=2),
             L.Conv2DTranspose(3, 3, padding="same", dilation_rate=2),
             L.Conv2DTranspose(3, 3, padding="valid", dilation_rate=2)]
    multi("conv2d_transpose", (5, 7, 4), made)
    multi("depthwise", image, [
        L.DepthwiseConv2D(3), L.DepthwiseConv2D(3, strides=2, padding="same"),
        L.DepthwiseConv2D((2, 3), depth_multiplier=3, use_bias=False),
        L.DepthwiseConv2D(3, dilation_rate=2, padding="same",
                          activation="relu6"),
        L.SeparableConv2D(5, 3, padding="same", depth_multiplier=2),
        L.SeparableConv2D(5, 3, strides=2, use_bias=False,
                          activation="silu"),
        L.SeparableConv2D(5, 3, dilation_rate=2)])
    multi("conv1d", (13, 4), [
        L.Conv1D(6, 3), L.Conv1D(6, 4, strides=2, padding="same"),
        L.Conv1D(6, 3, dilation_rate=3, padding="causal"),
        L.Conv1D(6, 3, groups=2, padding="same", activation="tanh"),
        L.SeparableConv1D(5, 3, depth_multiplier=2, padding="same"),
        L.DepthwiseConv1D(3, strides=2, padding="same"),
        L.Conv1DTranspose(5, 3, strides=2, padding="same"),
        L.MaxPooling1D(3, strides=2, padding="same"),
        L.AveragePooling1D(2), L.GlobalAveragePooling1D(),
        L.GlobalMaxPooling1D(keepdims=True), L.ZeroPadding1D((1, 2)),
        L.ZeroPadding1D(2), L.Cropping1D((2, 1)), L.UpSampling1D(3),
        L.Flatten(), L.Dense(3), L.Permute((2, 1)),
        L.BatchNormalization()])
    multi("conv3d", (5, 6, 7, 2), [
        L.Conv3D(4, 3), L.Conv3D(4, (1, 2, 3), strides=2, padding="same"),
        L.Conv3DTranspose(3, 3, strides=2, padding="same"),
        L.MaxPooling3D((2, 3, 2), padding="same"),
        L.AveragePooling3D(2, strides=1, padding="same"),
        L.GlobalAveragePooling3D(), L.ZeroPadding3D(((1, 0), (2, 1), (0, 3))),
        L.Cropping3D((1, 2, 1)), L.UpSampling3D((2, 1, 3)), L.Flatten(),
        L.Dense(3)])


def activations():
    names = ["relu", "relu6", "softmax", "sigmoid", "tanh", "elu", "selu",
             "celu", "softplus", "softsign", "swish", "silu", "hard_sigmoid",
             "hard_silu", "hard_swish", "hard_tanh", "gelu", "exponential",
             "linear", "leaky_relu", "mish", "log_softmax", "log_sigmoid"]
    multi("activations", (5, 4, 3), [L.Activation(n) for n in names])
    multi("activation_layers", (5, 4, 3), [
        L.ReLU(), L.ReLU(max_value=0.7), L.ReLU(negative_slope=0.3),
        L.ReLU(max_value=0.5, negative_slope=0.1), L.ReLU(threshold=0.4),
        L.ReLU(threshold=0.4, negative_slope=0.2, max_value=0.9),
        L.ReLU(threshold=0.3, negative_slope=0.2), L.LeakyReLU(0.15),
        L.PReLU(), L.PReLU(shared_axes=[1, 2]), L.ELU(0.7), L.Softmax(),
        L.Softmax(axis=1), L.Softmax(axis=2),
        L.Conv2D(2, 1, activation=L.ReLU(max_value=3)),
        L.Conv2D(2, 1, activation=L.LeakyReLU(0.4)),
        L.Activation(L.ELU(0.3))])
    multi("vectors", (6,), [
        L.Dense(4), L.Dense(4, use_bias=False, activation="softmax"),
        L.BatchNormalization(), L.PReLU(), L.RepeatVector(3),
        L.Reshape((2, 3)), L.Reshape((1, 1, 6)), L.Flatten(),
        L.LayerNormalization(), L.Softmax(), L.Rescaling(2, offset=-1)])


def pools_and_shapes():
    image = (9, 10, 3)
    made = []
    for cls in (L.MaxPooling2D, L.AveragePooling2D):
        for size, stride, padding in ((2, None, "valid"), (3, 2, "same"),
                                      ((2, 3), (1, 2), "same"),
                                      (3, 1, "valid"), (4, 3, "same")):
            made.append(cls(size, strides=stride, padding=padding))
    for cls in (L.GlobalMaxPooling2D, L.GlobalAveragePooling2D):
        made += [cls(), cls(keepdims=True)]
    multi("pools", image, made)
    multi("shapes", image, [
        L.Flatten(), L.Reshape((10, 27)), L.Reshape((-1, 5, 6)),
        L.Reshape((270,)), L.Permute((3, 1, 2)), L.Permute((2, 1, 3)),
        L.ZeroPadding2D(2), L.ZeroPadding2D((1, 3)),
        L.ZeroPadding2D(((1, 0), (2, 3))), L.Cropping2D(2),
        L.Cropping2D(((1, 0), (2, 3))), L.UpSampling2D(),
        L.UpSampling2D((3, 2), interpolation="bilinear"),
        L.Resizing(5, 17), L.Resizing(13, 4, interpolation="nearest"),
        L.Identity(), L.Dropout(0.5), L.SpatialDropout2D(0.5),
        L.GaussianNoise(1.0), L.RandomFlip(), L.RandomRotation(0.2)])


def norms():
    normal = L.Normalization()
    normal.adapt(RNG.uniform(0, 255, (50, 7, 5, 4)).astype("float32"))
    multi("norms", (7, 5, 4), [
        L.BatchNormalization(), L.BatchNormalization(scale=False),
        L.BatchNormalization(center=False, epsilon=1e-5),
        L.BatchNormalization(scale=False, center=False),
        L.BatchNormalization(axis=1), L.LayerNormalization(),
        L.LayerNormalization(axis=[1, 2, 3]),
        L.LayerNormalization(scale=False, center=False),
        L.GroupNormalization(2), L.GroupNormalization(-1, epsilon=1e-2),
        L.Rescaling(1 / 127.5, offset=-1), L.Rescaling([.1, .2, .3, .4]),
        L.Normalization(mean=[1., 2, 3, 4], variance=[4., 3, 2, 1]),
        L.Normalization(mean=3., variance=2., invert=True)])
    x = keras.Input((7, 5, 4))
    save("adapted", keras.Model(x, normal(x)), fill=False)


def merges():
    a = keras.Input((6, 5, 4))
    b = keras.Input((6, 5, 4))
    v = keras.Input((4,))
    gate = L.Dense(4, activation="sigmoid")(L.GlobalAveragePooling2D()(a))
    gate = L.Reshape((1, 1, 4))(gate)
    squeezed = L.GlobalAveragePooling2D(keepdims=True)(a)
    squeezed = L.Conv2D(4, 1, activation="sigmoid")(squeezed)
    turned = L.Permute((2, 1, 3))(a)
    outputs = [L.Add()([a, b]), L.Add()([a, b, a]), L.Subtract()([a, b]),
               L.Multiply()([a, gate]), L.Multiply()([squeezed, a]),
               L.Average()([a, b, b]), L.Maximum()([a, b]),
               L.Minimum()([a, b]), L.Concatenate()([a, b]),
               L.Concatenate(axis=1)([a, b]), L.Concatenate(axis=2)([a, b, a]),
               L.Concatenate(axis=-2)([a, b]), L.Add()([a, v]),
               L.Concatenate()([v, L.Flatten()(b)]),
               L.Add()([L.Permute((2, 1, 3))(turned), b]), a + 2.5,
               2.5 - a, a - 2.5, a * 0.3, a / 0.3, 3 / (b * b + 1), a + b,
               a / (b * b + 1)]
    save("merges", keras.Model([a, b, v], outputs))


def structures():
    save("mnist_quickstart", keras.Sequential([
        keras.Input((28, 28)), L.Flatten(), L.Dense(16, activation="relu"),
        L.Dropout(0.2), L.Dense(10)]))
    save("reshaped", keras.Sequential([
        keras.Input((12, 14)), L.Reshape((12, 14, 1)), L.Conv2D(3, 3),
        L.Flatten(), L.Dense(4)]))
    save("generator", keras.Sequential([
        keras.Input((10,)), L.Dense(3 * 4 * 6), L.Reshape((3, 4, 6)),
        L.BatchNormalization(), L.LeakyReLU(),
        L.Conv2DTranspose(5, 5, strides=2, padding="same"),
        L.Conv2DTranspose(1, 4, strides=2, padding="same",
                          activation="tanh")]))
    block = keras.Sequential([L.Conv2D(5, 3, padding="same"),
                              L.BatchNormalization(), L.ReLU()], name="block")
    inner_in = keras.Input((8, 9, 5))
    inner_mid = L.Conv2D(5, 1, name="inner_conv")(inner_in)
    inner_bn = L.BatchNormalization(name="inner_bn")(inner_mid)
    inner_out = L.Add()([inner_bn, inner_in])
    inner = keras.Model(inner_in, [inner_out, inner_bn], name="inner")
    frozen = keras.Sequential([keras.Input((8, 9, 5)),
                               L.BatchNormalization(name="frozen_bn"),
                               L.Conv2D(5, 1, name="frozen_conv")],
                              name="frozen")
    frozen.trainable = False
    x = keras.Input((8, 9, 3))
    y = block(x)
    first, second = inner(y)
    shared = L.Conv2D(5, 3, padding="same", name="shared")
    z = shared(shared(first))
    again, _ = inner(L.Add()([z, second]))
    w = frozen(again)
    dense = L.Dense(5, name="shared_dense")
    out = [L.GlobalAveragePooling2D()(w), z, dense(w),
           dense(L.GlobalMaxPooling2D()(w))]
    save("nested", keras.Model(x, out))
    save("nested_sequential", keras.Sequential([
        keras.Input((8, 9, 3)), keras.Sequential([
            L.Conv2D(4, 3), keras.Sequential([L.BatchNormalization(),
                                              L.Conv2D(2, 3)])]),
        L.Flatten(), L.Dense(3)]))
    x = keras.Input((8, 9, 3))
    t = L.Conv2D(4, 3)(x)
    mixed = [L.Dense(6)(t), L.Dense(3)(L.Reshape((6, 28))(t)),
             L.Conv2D(2, 3)(L.Reshape((7, 6, 4))(t)),
             L.BatchNormalization()(L.Reshape((28, 6))(t))]
    save("mixed", keras.Model(x, mixed))
    save("same_output", keras.Model(x, [t, x]))
    def little():
        return keras.Sequential([keras.Input((8, 9, 3)), L.Conv2D(4, 3),
                                 L.Flatten(), L.Dense(3)])
    # Stored in 16 bits, computed here and there in 32.
    for name, policy, formats in (("half", "float16", ("keras", "h5")),
                                  ("brain", "bfloat16", ("keras",)),
                                  ("mixed_half", "mixed_float16",
                                   ("keras", "h5"))):
        keras.config.set_dtype_policy(policy)
        model = little()
        keras.config.set_dtype_policy("float32")
        save(name, model, formats=formats, reference=little())
    trained = keras.Sequential([keras.Input((8, 9, 3)), L.RandomFlip(),
                                L.Conv2D(4, 3), L.Dropout(0.5), L.Flatten(),
                                L.Dense(3)])
    trained.compile("adam", "mse")
    trained.fit(RNG.random((4, 8, 9, 3)), RNG.random((4, 3)), verbose=0)
    save("trained", trained, fill=False)


# ---- channels first --------------------------------------------------

def channels_first():
    keras.config.set_image_data_format("channels_first")
    x = keras.Input((3, 9, 8))
    y = L.Conv2D(6, 3, padding="same", strides=2)(x)
    y = L.BatchNormalization(axis=1)(y)
    y = L.PReLU(shared_axes=[2, 3])(y)
    s = L.SeparableConv2D(6, 3, padding="same")(y)
    y = L.Concatenate(axis=1)([y, s])
    p = L.MaxPooling2D(2)(y)
    t = L.Conv2DTranspose(4, 3, strides=2, padding="same")(p)
    outputs = [L.Flatten()(y), L.Flatten(data_format="channels_last")(y),
               L.GlobalAveragePooling2D()(y), L.ZeroPadding2D((1, 2))(t),
               L.UpSampling2D(2)(p), L.Cropping2D(1)(t),
               L.Softmax(axis=1)(p), L.Reshape((12, -1))(p),
               L.Dense(5)(L.Flatten()(p)), L.Dense(3)(p)]
    save("channels_first", keras.Model(x, outputs))
    save("channels_first_sequential", keras.Sequential([
        keras.Input((2, 9, 8)), L.Conv2D(4, 3), L.AveragePooling2D(2),
        L.Activation("relu"), L.Flatten(), L.Dense(3)]))


# ---- Keras 1 and 2 ---------------------------------------------------

def write_h5(name, config, weights, version, backend=None, bare=False):
    """weights: {layer: [(name, array), ...]}"""
    with h5py.File(os.path.join(FOLDER, name + ".h5"), "w") as f:
        top = f if bare else f.create_group("model_weights")
        if not bare:
            f.attrs["model_config"] = json.dumps(config).encode()
            if version:
                f.attrs["keras_version"] = version.encode()
            if backend:
                f.attrs["backend"] = backend.encode()
        top.attrs["layer_names"] = [n.encode() for n in weights]
        for layer, arrays in weights.items():
            group = top.create_group(layer)
            group.attrs["weight_names"] = [n.encode() for n, _ in arrays]
            for n, a in arrays:
                group[n] = a


def expected(name, model, transpose=None):
    randomise(model)
    x = RNG.standard_normal((2,) + tuple(model.inputs[0].shape[1:])) \
        .astype("float32")
    y = keras.ops.convert_to_numpy(model(x, training=False))
    stored = x if transpose is None else x.transpose(transpose)
    np.savez(os.path.join(FOLDER, name + ".npz"), input0=stored, output0=y)


def keras1(name, order, backend):
    """LeNet-like, as Keras 1 configured and stored it."""
    th = order == "th"
    conv = L.Conv2D(5, (3, 2), activation="relu")
    dense = L.Dense(4, activation="hard_sigmoid")
    model = keras.Sequential([keras.Input((9, 8, 3)), conv,
                              L.BatchNormalization(axis=-1), L.MaxPooling2D(),
                              L.Flatten(), dense])
    # Keras 1 and 2 mean clip(x / 5 + 1 / 2) by hard_sigmoid.
    dense.activation = lambda t: keras.ops.clip(0.2 * t + 0.5, 0, 1)
    expected(name, model, (0, 3, 1, 2) if th else None)
    kernel, bias = (np.asarray(w) for w in conv.get_weights())
    if th:
        kernel = kernel.transpose(3, 2, 0, 1)
        if backend == "theano":
            kernel = kernel[:, :, ::-1, ::-1]
    # Keras 1 flattens what it has: C,H,W where channels come first.
    matrix, shift = dense.get_weights()
    if th:
        matrix = matrix.reshape(3, 3, 5, 4).transpose(2, 0, 1, 3) \
            .reshape(45, 4)
    names = ["gamma", "beta", "running_mean", "running_std"]
    bn = model.layers[1].get_weights()
    config = {"class_name": "Sequential", "config": [
        {"class_name": "Convolution2D", "config": {
            "name": "convolution2d_1", "nb_filter": 5, "nb_row": 3,
            "nb_col": 2, "subsample": [1, 1], "border_mode": "valid",
            "dim_ordering": order, "bias": True, "activation": "relu",
            "batch_input_shape": [None, 3, 9, 8] if th else
            [None, 9, 8, 3], "trainable": True}},
        {"class_name": "BatchNormalization", "config": {
            "name": "batchnormalization_1", "mode": 0,
            "axis": 1 if th else -1, "epsilon": 0.001,
            "momentum": 0.99}},
        {"class_name": "MaxPooling2D", "config": {
            "name": "maxpooling2d_1", "pool_size": [2, 2],
            "strides": [2, 2], "border_mode": "valid",
            "dim_ordering": order}},
        {"class_name": "Flatten", "config": {"name": "flatten_1"}},
        {"class_name": "Dense", "config": {
            "name": "dense_1", "output_dim": 4, "bias": True,
            "activation": "hard_sigmoid", "input_dim": None}}]}
    write_h5(name, config, {
        "convolution2d_1": [("convolution2d_1_W", kernel),
                            ("convolution2d_1_b", bias)],
        "batchnormalization_1": [(f"batchnormalization_1_{n}", w)
                                 for n, w in zip(names, bn)],
        "maxpooling2d_1": [], "flatten_1": [],
        "dense_1": [("dense_1_W", matrix), ("dense_1_b", shift)]},
        "1.2.2", backend)


def keras2():
    """Functional, with connections as Keras 2 lists them, a model inside, and
    weight names in several parts of an attribute."""
    inner = keras.Sequential([keras.Input((7, 6, 4)),
                              L.BatchNormalization(name="bn"),
                              L.Conv2D(4, 1, name="conv")], name="inner")
    x = keras.Input((9, 8, 3), name="input_1")
    y = L.Conv2D(4, 3, name="conv2d", activation="relu")(x)
    z = L.Add(name="add")([inner(y), y])
    z = L.GlobalAveragePooling2D(name="pool")(z)
    z = L.LeakyReLU(0.25, name="leaky")(z)
    expected("keras2", keras.Model(x, z))
    bn, conv = inner.layers
    weights = {
        "input_1": [],
        "conv2d": [("conv2d/kernel:0", y), ("conv2d/bias:0", y)],
        "inner": [("bn/gamma:0", 0), ("bn/beta:0", 0), ("conv/kernel:0", 0),
                  ("conv/bias:0", 0), ("bn/moving_mean:0", 0),
                  ("bn/moving_variance:0", 0)],
        "add": [], "pool": [], "leaky": []}
    model = keras.Model(x, z)
    weights["conv2d"] = list(zip([n for n, _ in weights["conv2d"]],
                                 model.get_layer("conv2d").get_weights()))
    g, b, m, v = bn.get_weights()
    weights["inner"] = list(zip([n for n, _ in weights["inner"]],
                                [g, b, *conv.get_weights(), m, v]))

    def layer(cls, name, config, *inputs):
        return {"class_name": cls, "name": name,
                "config": {"name": name, **config},
                "inbound_nodes": [[[i, n, 0, {}] for i, n in inputs]]
                if inputs else []}

    def inside(cls, name, config):
        return {"class_name": cls, "config": {"name": name, **config}}
    config = {"class_name": "Functional", "config": {
        "name": "model", "layers": [
            # Not in the order of use.
            layer("GlobalAveragePooling2D", "pool",
                  {"data_format": "channels_last"}, ("add", 0)),
            layer("LeakyReLU", "leaky", {"alpha": {
                "type": "ndarray", "value": 0.25}}, ("pool", 0)),
            layer("InputLayer", "input_1",
                  {"batch_input_shape": [None, 9, 8, 3],
                   "dtype": "float32"}),
            layer("Conv2D", "conv2d", {
                "filters": 4, "kernel_size": [3, 3], "strides": [1, 1],
                "padding": "valid", "data_format": "channels_last",
                "dilation_rate": [1, 1], "activation": "relu",
                "use_bias": True}, ("input_1", 0)),
            {"class_name": "Sequential", "name": "inner",
             "config": {"name": "inner", "layers": [
                 inside("InputLayer", "bn_input",
                        {"batch_input_shape": [None, 7, 6, 4]}),
                 inside("BatchNormalization", "bn",
                        {"axis": [3], "epsilon": 0.001}),
                 inside("Conv2D", "conv", {"filters": 4, "kernel_size": [1, 1],
                                           "activation": "linear"})]},
             "inbound_nodes": [[["conv2d", 0, 0, {}]]]},
            layer("Add", "add", {}, ("inner", 1), ("conv2d", 0))],
        "input_layers": [["input_1", 0, 0]],
        "output_layers": [["leaky", 0, 0]]}}
    write_h5("keras2", config, weights, "2.4.0", "tensorflow")
    with h5py.File(os.path.join(FOLDER, "keras2.h5"), "a") as f:
        attrs = f["model_weights/inner"].attrs
        names = list(attrs["weight_names"])
        del attrs["weight_names"]
        attrs["weight_names0"] = names[:4]
        attrs["weight_names1"] = names[4:]


def applications():
    made = {"mobilenet": keras.applications.MobileNet,
            "mobilenet_v2": keras.applications.MobileNetV2,
            "mobilenet_v3_small": keras.applications.MobileNetV3Small,
            "resnet50": keras.applications.ResNet50,
            "resnet50_v2": keras.applications.ResNet50V2,
            "densenet121": keras.applications.DenseNet121,
            "efficientnet_b0": keras.applications.EfficientNetB0,
            "efficientnet_v2_b0": keras.applications.EfficientNetV2B0,
            "inception_v3": keras.applications.InceptionV3,
            "nasnet_mobile": keras.applications.NASNetMobile,
            "xception": keras.applications.Xception,
            "convnext_tiny": keras.applications.ConvNeXtTiny,
            "vgg16": keras.applications.VGG16}
    for name, make in made.items():
        size = 75 if name == "inception_v3" else \
            71 if name == "xception" else 64
        model = make(weights=None, input_shape=(size, size, 3), classes=11)
        save(name, model, formats=("keras", "h5"))


def seeds():
    x = keras.Input((6, 5, 2), name="in")
    a = L.Conv2D(3, 3, name="aa", activation="relu")(x)
    b = L.BatchNormalization(name="bb")(a)
    c = L.Add(name="cc")([a, b])
    d = L.Flatten(name="dd")(c)
    model = keras.Model(x, L.Dense(4, name="ee")(d), name="seed")
    model.compile("sgd", "mse")
    save("seed_model", model)
    # ConvNeXt's layer, which keras.layers does not have.
    from keras.src.applications.convnext import LayerScale
    y = L.Dense(4, name="gg")(LayerScale(0.5, 3, name="ff")(a))
    save("seed_scale", keras.Model(x, L.Add(name="hh")(
        [y, LayerScale(0.5, 4, name="ii")(y)]), name="scale"),
        formats=("keras", "h5"))


def function_seeds():
    """keras.ops in a model's graph, and layers that are no convolution."""
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer
    ops = keras.ops
    x = keras.Input((7, 5, 4), name="in")
    made = [
        ops.mean(x, (1, 2)), ops.max(x, axis=-1, keepdims=True), ops.sum(x, 1),
        x[:, ::2], x[..., 1], x[:, -1, 1:3], x[:, ::-1, None], ops.flip(x, -1),
        ops.pad(x, [[0, 0], [1, 0], [0, 2], [1, 1]]),
        ops.pad(x, [[0, 0], [2, 1], [1, 1], [0, 0]], "reflect"),
        ops.reshape(x, (-1, 35, 4)), ops.transpose(x, (0, 2, 1, 3)),
        ops.expand_dims(x, 1), ops.squeeze(x[:, 2:3], 1),
        ops.matmul(x, ops.transpose(x, (0, 1, 3, 2))), ops.clip(x, -0.5, 1),
        ops.absolute(x) ** 1.5, x ** 2, 2.0 ** x, ops.square(x), ops.relu6(x),
        ops.leaky_relu(x, 0.3), ops.gelu(x), ops.gelu(x, False), ops.elu(x),
        ops.cast(ops.cast(3 * x, "int32"), "float32"), ops.silu(x),
        ops.image.resize(x, (4, 9)),
        L.Activation("glu")(x), L.Activation("tanh_shrink")(x),
        L.Activation("soft_shrink")(x), L.Activation("hard_shrink")(x),
        L.Activation("squareplus")(x), L.Activation("sparse_plus")(x),
        L.AdaptiveAveragePooling2D((3, 5))(x), L.AdaptiveMaxPooling2D(2)(x),
        L.CenterCrop(4, 3)(x), L.Resizing(4, 3, antialias=True)(x),
        L.UnitNormalization()(x), L.UnitNormalization(axis=(1, 2))(x),
        L.RMSNormalization()(x), CustomScaleLayer(0.3)([x, ops.sin(x)]),
        L.EinsumDense("abcd,de->abce", (None, None, 6), bias_axes="e")(x),
        L.EinsumDense("abcd,cdef->abef", (None, 2, 3), bias_axes="ef",
                      activation="relu")(x)]
    t = ops.reshape(x, (-1, 35, 4))
    made += [L.Dot((1, 1))([t, t]), L.Dot((2, 2), normalize=True)([t, t]),
             L.Dot(1)([t[:, 0], t[:, 1]]),
             L.Embedding(9, 3)(ops.cast(ops.abs(2 * t[..., 0]), "int32"))]
    save("seed_functions", keras.Model(x, made, name="functions"),
         formats=("keras", "h5"))
    pixels = keras.Input((6, 5, 3), name="in")
    save("seed_pixels", keras.Model(pixels, L.Conv2D(2, 3)(
        L.Rescaling(1 / 127.5, -1)(L.RandomFlip()(pixels))), name="pixels"),
        formats=("keras",))


def step_seeds():
    """Layers over steps, layers that hold layers, attention, choices."""
    global RNG
    RNG = np.random.default_rng(8)
    keras.utils.set_random_seed(8)
    os.makedirs(os.path.join(FOLDER, "keras"), exist_ok=True)
    ops = keras.ops
    x = keras.Input((4, 3), name="in")
    state = L.LSTM(2, return_state=True)(x)
    made = [
        L.SimpleRNN(2, go_backwards=True)(x), *state,
        L.LSTM(2, return_sequences=True, use_bias=False)(
            x, initial_state=state[1:]),
        L.GRU(2, return_sequences=True)(x),
        L.GRU(2, reset_after=False, activation="relu")(x),
        L.LSTM(2)(L.Masking()(ops.where(x > 1, 0.0, x[:, :, :3]))),
        L.Bidirectional(L.LSTM(2, return_sequences=True))(x),
        L.Bidirectional(L.GRU(2), merge_mode="ave")(x),
        L.TimeDistributed(keras.Sequential(
            [keras.Input((3,)), L.Dense(2), L.BatchNormalization()]))(x),
        L.SpectralNormalization(L.Dense(2))(x),
        L.MultiHeadAttention(2, 2)(x, x, use_causal_mask=True),
        L.MultiHeadAttention(1, 2, use_bias=False)(query=x, value=x[:, 1:],
                                                   key=x[:, :3]),
        L.Attention(use_scale=True)([x, x[:, 1:]]),
        L.AdditiveAttention()([x, x[:, 1:]]),
        ops.cast(ops.argmax(x, axis=-1), "float32"),
        ops.stack([x, 2 * x], axis=2),
        ops.roll(x, 1, axis=1), ops.repeat(x, 2, axis=2),
        ops.tile(x, [2, 1]), ops.one_hot(ops.argmax(x, axis=1), 4),
        x * ops.cast(ops.any(ops.not_equal(x, x[:, ::-1]), axis=2,
                             keepdims=True), "float32"),
        ops.cast(L.Discretization([-0.5, 0.5])(x), "float32"),
        L.CategoryEncoding(3)(ops.cast(ops.abs(x[:, 0]), "int32"))]
    save("keras/steps", keras.Model(x, made, name="steps"),
         formats=("keras", "h5"))
    x = keras.Input((3, 5, 4, 2), name="in")
    made = [L.ConvLSTM2D(2, 3, padding="same", return_sequences=True)(x),
            L.TimeDistributed(L.Conv2D(2, 3))(x)]
    save("keras/frames", keras.Model(x, made, name="frames"),
         formats=("keras",))
    x = keras.Input((7, 5, 2), name="in")
    made = [L.UpSampling2D((2, 3), interpolation="bicubic")(x),
            L.Resizing(4, 9, interpolation="bicubic")(x),
            L.Resizing(4, 9, interpolation="lanczos3")(x),
            L.Resizing(3, 3, interpolation="lanczos5", antialias=True)(x)]
    save("keras/filters", keras.Model(x, made, name="filters"),
         formats=("keras",))


def number_seeds():
    """Functions of keras.ops on numbers that are several nodes."""
    global RNG
    RNG = np.random.default_rng(9)
    os.makedirs(os.path.join(FOLDER, "keras"), exist_ok=True)
    ops = keras.ops
    x = keras.Input((4, 3, 2), name="in")
    y = ops.abs(x) + 0.5
    made = [
        ops.log1p(y), ops.log2(y), ops.log10(y), ops.exp2(x), ops.expm1(x),
        ops.erfc(x), ops.rsqrt(y), ops.arcsinh(x), ops.arccosh(y + 1),
        ops.arctanh(x / 9), ops.stop_gradient(x) * 2, ops.var(x, axis=-1),
        ops.var(x, axis=(1, 2), keepdims=True), ops.std(x, axis=1),
        ops.norm(x, axis=-1), ops.norm(x, ord=1, axis=2, keepdims=True),
        ops.norm(x, axis=(1, 2)), ops.logsumexp(x, axis=-1),
        ops.logsumexp(100 * x, axis=1, keepdims=True),
        ops.nan_to_num(ops.sqrt(x))]
    save("keras/numbers", keras.Model(x, made, name="numbers"),
         formats=("keras", "h5"))


def order_seeds():
    """Functions of keras.ops that choose, order and multiply, and arrays among
    their arguments."""
    global RNG
    RNG = np.random.default_rng(10)
    os.makedirs(os.path.join(FOLDER, "keras"), exist_ok=True)
    ops = keras.ops
    x = keras.Input((4, 3, 2), name="in")
    y = x[..., 0]
    weights = RNG.standard_normal((2, 3)).astype("float32")

    def number(t):
        return ops.cast(t, "float32")

    made = [
        ops.einsum("bhwc,bhwd->bcd", x, x), ops.einsum("bhwc->bcwh", x),
        ops.einsum("bhwc,bkwc->bhk", x, x), ops.einsum("bhwc,cd->bhwd", x,
                                                       weights),
        ops.einsum("...wc,...vc->...wv", x, x), ops.einsum("bhwc->bh", x),
        ops.tensordot(x, weights, 1), ops.dot(x, weights), x @ weights,
        ops.average(x, axis=2), ops.take(x, [2, -1], axis=1),
        ops.take(x, 1, axis=2), ops.take(x, np.array([[0, 1], [1, 1]]), -1),
        ops.take_along_axis(x, ops.argmax(x, axis=1, keepdims=True), axis=1),
        ops.top_k(y, 2)[0], number(ops.top_k(y, 2)[1]), ops.sort(x, axis=1),
        number(ops.argsort(x, axis=2)), ops.median(x, axis=1),
        ops.quantile(x, 0.3, axis=2, keepdims=True), ops.cumsum(x, axis=1),
        ops.cumprod(x, axis=2), *ops.split(x, 2, axis=1),
        *ops.split(x, [1, 2], axis=2), *ops.unstack(x, axis=3),
        ops.diff(x, n=2, axis=1), ops.tril(y), ops.triu(y, 1),
        ops.slice(x, (0, 1, 0, 1), (-1, 2, 3, 1)),
        ops.max_pool(x, 2, 1), ops.average_pool(x, (2, 3), 1, "same"),
        ops.image.pad_images(x, 1, 2, 0, 1),
        ops.image.crop_images(x, 1, 1, 2, 0),
        ops.image.rgb_to_grayscale(ops.concatenate([x, x[..., :1]], -1)),
        ops.pad(x, [[0, 0], [2, 1], [0, 1], [0, 0]], "symmetric"),
        ops.logaddexp(x, 0.7), ops.floor_divide(ops.abs(x) + 1, 0.3),
        number(ops.logical_xor(x > 0, x > 0.5)), ops.threshold(x, 0.1, 0.5),
        ops.glu(x, axis=1), ops.celu(x, 0.4), ops.log_softmax(x, axis=1),
        ops.zeros_like(x) + ops.ones_like(x), ops.deg2rad(x), ops.rad2deg(x),
        ops.fmax(x, 0.2), ops.dot_product_attention(x, x, x),
        x + weights[:, 0], ops.maximum(weights[0, :2], x)]
    save("keras/order", keras.Model(x, made, name="order"),
         formats=("keras", "h5"))


if PART == "seeds":
    seeds()
    function_seeds()
    step_seeds()
    number_seeds()
    order_seeds()
elif PART == "last":
    for part in (convolutions, activations, pools_and_shapes, norms, merges,
                 structures):
        part()
elif PART == "first":
    channels_first()
elif PART == "old":
    keras1("keras1_tf", "tf", "tensorflow")
    keras1("keras1_th", "th", "tensorflow")
    keras1("keras1_theano", "th", "theano")
    keras2()
else:
    applications()
