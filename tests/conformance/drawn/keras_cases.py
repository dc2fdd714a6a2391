# SPDX-License-Identifier: Apache-2.0
"""Templates of keras_graphs.py: each gives an expression of x (and y, z) with
its drawn arguments, and the shapes of the inputs without the batch."""
import keras
import numpy as np

L, O = keras.layers, keras.ops
TEMPLATES = {}
NAMES = {"L": L, "O": O, "keras": keras, "np": np}  # of expressions


def template(f):
    TEMPLATES[f.__name__] = f
    return f


def pick(r, *c):
    return r.choice(c)


def tup(r, n, low, high):
    if n == 1 or r.random() < 0.5:
        return r.randint(low, high)
    return tuple(r.randint(low, high) for _ in range(n))


def size(r, n, low=7, high=12):
    return [r.randint(low, high) for _ in range(n)]


def draw_case(name, r):
    """(model, inputs, text)"""
    text, *shapes = TEMPLATES[name](r)
    draw = np.random.default_rng(r.randrange(1 << 30))
    inputs, tensors = [], []
    for i, s in enumerate(shapes):
        kind = None
        if isinstance(s, dict):
            kind, s = s["int"], s["shape"]
        dtype = "int32" if kind else "float32"
        tensors.append(keras.Input(tuple(s), dtype=dtype, name="x%d" % i))
        inputs.append(draw.integers(0, kind, (2, *s)).astype(np.int32) if kind
                      else draw.standard_normal((2, *s)).astype(np.float32))
    y = eval(text, {**NAMES, **dict(zip("xyz", tensors))})
    model = keras.Model(tensors if len(tensors) > 1 else tensors[0], y)
    for w in model.weights:  # values in which a mistake shows
        v = np.asarray(w)
        if v.dtype.kind == "f" and v.size and "seed" not in w.path:
            if (v == v.flat[0]).all():
                v = v + draw.uniform(-0.2, 0.6, v.shape)
            w.assign(v.astype(v.dtype))
    return model, inputs, text


def image(r, n=2, c=None, low=7, high=12):
    return (*size(r, n, low, high), c or r.randint(1, 5))


def act(r):
    return pick(r, None, None, "relu", "swish", "gelu", "elu", "tanh",
                "hard_sigmoid", "relu6", "selu", "softplus", "leaky_relu",
                "mish", "hard_swish", "softmax")


@template
def conv(r):
    n, g = r.randint(1, 3), pick(r, 1, 1, 1, 2)
    stride, dilation = tup(r, n, 1, 3), 1
    if r.random() < 0.3:
        stride, dilation = 1, tup(r, n, 1, 3)
    pad = pick(r, "same", "valid") if n > 1 else pick(
        r, "same", "valid", "causal")
    return ("L.Conv%dD(%d, %s, strides=%s, padding=%r, dilation_rate=%s, "
            "groups=%d, activation=%r, use_bias=%s)(x)" % (
                n, g * r.randint(1, 4), tup(r, n, 1, 4), stride, pad, dilation,
                g, act(r), pick(r, True, False)),
            image(r, n, g * r.randint(1, 3), 8, 11))


@template
def conv_transpose(r):
    n = pick(r, 1, 2, 2, 3)
    return ("L.Conv%dDTranspose(%d, %s, strides=%s, padding=%r, "
            "activation=%r)(x)" % (
                n, r.randint(1, 4), tup(r, n, 1, 4), tup(r, n, 1, 3),
                pick(r, "same", "valid"), act(r)), image(r, n, None, 3, 6))


@template
def depthwise(r):
    n = pick(r, 1, 2, 2)
    s = r.randint(1, 3)
    a = "%s, strides=%d, padding=%r, depth_multiplier=%d, dilation_rate=%d" % (
        tup(r, n, 1, 4), s, pick(r, "same", "valid"), r.randint(1, 3),
        1 if s > 1 else r.randint(1, 2))
    if r.random() < 0.5:
        return "L.DepthwiseConv%dD(%s, activation=%r)(x)" % (
            n, a, act(r)), image(r, n)
    return "L.SeparableConv%dD(%d, %s, activation=%r)(x)" % (
        n, r.randint(1, 4), a, act(r)), image(r, n)


@template
def pooling(r):
    n = r.randint(1, 3)
    k = pick(r, "Max", "Average")
    return "L.%sPooling%dD(%s, strides=%s, padding=%r)(x)" % (
        k, n, tup(r, n, 1, 4), pick(r, None, tup(r, n, 1, 3)),
        pick(r, "same", "valid")), image(r, n)


@template
def global_pooling(r):
    n = r.randint(1, 3)
    if r.random() < 0.3:
        return "L.Adaptive%sPooling%dD(%s)(x)" % (
            pick(r, "Max", "Average"), n, tup(r, n, 1, 4)), image(r, n)
    return "L.Global%sPooling%dD(keepdims=%s)(x)" % (
        pick(r, "Max", "Average"), n, pick(r, True, False)), image(r, n)


@template
def normalization(r):
    n = r.randint(0, 3)
    c = r.randint(2, 6)
    a = "center=%s, scale=%s, epsilon=%g" % (
        pick(r, True, False), pick(r, True, False), pick(r, 1e-3, 1e-5, 0.1))
    return pick(
        r, "L.BatchNormalization(%s)(x)" % a,
        "L.BatchNormalization(axis=%d, %s)(x)" % (pick(r, -1, 1), a),
        "L.LayerNormalization(%s)(x)" % a,
        "L.LayerNormalization(axis=%s, %s)(x)" % (
            [1, -1] if n else 1, a),
        "L.GroupNormalization(%s, %s)(x)" % (pick(r, -1, c, 1), a),
        "L.UnitNormalization(axis=%d)(x)" % pick(r, 1, -1),
        "L.RMSNormalization()(x)",
        "L.Normalization(mean=0.3, variance=2.0)(x)",
        "L.Normalization(axis=-1, mean=%s, variance=%s, invert=%s)(x)" % (
            [0.1 * i for i in range(c)], [1.0 + i for i in range(c)],
            pick(r, True, False)),
        "L.Rescaling(%g, offset=%g)(x)" % (r.uniform(-2, 2), r.uniform(-1, 1)),
        "L.Rescaling(%s, offset=%g)(x)" % ([0.1 * i + 0.3 for i in range(c)],
                                           r.uniform(-1, 1)),
    ), (*size(r, n, 3, 6), c)


@template
def activation_layer(r):
    u = r.uniform
    return pick(
        r, "L.ReLU(max_value=%s, negative_slope=%g, threshold=%g)(x)" % (
            pick(r, None, 1.5), u(0, 0.4), u(0, 1)),
        "L.LeakyReLU(%g)(x)" % u(0, 1), "L.ELU(%g)(x)" % u(0.2, 2),
        "L.PReLU(shared_axes=%s)(x)" % pick(r, None, [1, 2], [1], [2]),
        "L.Softmax(axis=%s)(x)" % pick(r, -1, 1, 2, [1, 2]),
        "L.Activation(%r)(x)" % pick(
            r, "celu", "elu", "exponential", "gelu", "glu", "hard_shrink",
            "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu", "linear",
            "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu",
            "sigmoid", "silu", "soft_shrink", "softmax", "softplus",
            "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax",
            "squareplus", "tanh", "tanh_shrink", "threshold"),
        "keras.activations.gelu(x, approximate=%s)" % pick(r, True, False),
        "O.threshold(x, %g, %g)" % (u(-1, 1), u(-2, 2)),
        "O.celu(x, %g)" % u(0.3, 2), "O.glu(x, axis=1)",
        "O.log_softmax(x, axis=%d)" % pick(r, 1, -1),
        "O.soft_shrink(x, %g)" % u(0, 1), "O.hard_shrink(x, %g)" % u(0, 1),
    ), (4, 6, 3)


@template
def reshaping(r):
    n = r.randint(1, 3)
    p = [(r.randint(0, 2), r.randint(0, 2)) for _ in range(n)]
    p = p[0] if n == 1 else tuple(p)
    s = image(r, n, None, 5, 8)
    return pick(
        r, "L.ZeroPadding%dD(%s)(x)" % (n, p), "L.Cropping%dD(%s)(x)" % (n, p),
        "L.UpSampling%dD(%s)(x)" % (n, tup(r, n, 1, 3)) if n != 1 else
        "L.UpSampling1D(2)(x)", "L.Flatten()(x)",
        "L.Permute(%s)(x)" % (tuple(r.sample(range(1, n + 2), n + 1)),),
        "L.Reshape((-1, %d))(x)" % s[-1], "L.Reshape((%d, -1))(x)" % s[0],
        "L.RepeatVector(3)(L.Flatten()(x))", "L.Flatten()(L.Permute(%s)(x))" % (
            tuple(r.sample(range(1, n + 2), n + 1)),)), s


@template
def resizing(r):
    m = pick(r, "nearest", "bilinear", "bicubic")
    return pick(
        r, "L.UpSampling2D(%s, interpolation=%r)(x)" % (tup(r, 2, 1, 3), m),
        "L.Resizing(%d, %d, interpolation=%r%s)(x)" % (
            r.randint(3, 15), r.randint(3, 15), m,
            pick(r, "", "", ", crop_to_aspect_ratio=True",
                 ", pad_to_aspect_ratio=True")),
        "O.image.resize(x, (%d, %d), interpolation=%r, antialias=%s)" % (
            r.randint(3, 15), r.randint(3, 15), m, pick(r, True, False,
                                                        False)),
        "L.CenterCrop(%d, %d)(x)" % (r.randint(2, 9), r.randint(2, 9)),
        "O.image.rgb_to_grayscale(x)", "O.image.pad_images(x, 1, 2, 1, 0)",
        "O.image.crop_images(x, 1, 1, 2, 0)",
        "O.image.rgb_to_hsv(O.sigmoid(x))",
        "O.image.extract_patches(x, 3, 2)"), image(r, 2, 3, 7, 10)


@template
def merging(r):
    s = image(r, pick(r, 1, 2), None, 4, 6)
    if r.random() < 0.2:
        return "L.Dot(axes=%s, normalize=%s)([x, y])" % (
            pick(r, 1, 2, (1, 1), (2, 2)), pick(r, True, False)), (5, 5), (5, 5)
    m = pick(r, "Add()", "Subtract()", "Multiply()", "Average()", "Maximum()",
             "Minimum()", "Concatenate()", "Concatenate(axis=1)")
    if m == "Subtract()" or r.random() < 0.5:
        return "L.%s([x, y])" % m, s, s
    return "L.%s([x, y, z])" % m, s, s, s


@template
def dense(r):
    s = (*size(r, r.randint(0, 2), 3, 5), r.randint(2, 6))
    eq = pick(r, ("ab...,bc->ac...", 3), ("...x,xy->...y", 4))
    return pick(
        r, "L.Dense(%d, activation=%r, use_bias=%s)(x)" % (
            r.randint(1, 6), act(r), pick(r, True, False)),
        "L.EinsumDense('...x,xy->...y', output_shape=%s, bias_axes='y')(x)" % (
            (*s[:-1], 4),),
        "L.TimeDistributed(L.Dense(3))(O.reshape(x, (-1, 2, %d)))" % s[-1]
        if False else "L.Dense(3)(L.Dense(4, 'relu')(x))"), s


@template
def recurrent(r):
    k = pick(r, "LSTM", "GRU", "SimpleRNN")
    a = "%d, return_sequences=%s, go_backwards=%s, use_bias=%s" % (
        r.randint(2, 4), pick(r, True, False), pick(r, True, False),
        pick(r, True, False))
    if k == "GRU":
        a += ", reset_after=%s" % pick(r, True, False)
    y = "L.%s(%s)" % (k, a)
    if r.random() < 0.3:
        y = "L.Bidirectional(L.%s(3, return_sequences=%s), merge_mode=%r)" % (
            k, pick(r, True, False), pick(r, "concat", "sum", "mul", "ave"))
    return y + "(x)", (r.randint(3, 7), r.randint(2, 4))


@template
def attention(r):
    return pick(
        r, "L.MultiHeadAttention(%d, 4, value_dim=%d, use_bias=%s)(x, y)" % (
            r.randint(1, 3), r.randint(2, 5), pick(r, True, False)),
        "L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)",
        "L.GroupQueryAttention(4, 4, 2)(x, y)",
        "L.Attention(use_scale=%s)([x, y])" % pick(r, True, False),
        "L.AdditiveAttention()([x, y])",
        "L.Add()([x, L.MultiHeadAttention(2, 3)(x, x)])"), (5, 6), (4, 6)


@template
def embedding(r):
    return "L.Embedding(9, %d)(x)" % r.randint(1, 5), {
        "int": 9, "shape": (r.randint(2, 5),)}


UNARY = """abs arccos arccosh arcsin arcsinh arctan arctanh ceil cos cosh exp exp2
expm1 floor isfinite isinf isnan log log10 log1p log2 logical_not negative
reciprocal round sign sin sinh sqrt square tan tanh erf rsqrt signbit trunc
sigmoid relu relu6 silu softplus softsign gelu elu selu leaky_relu hard_sigmoid
nan_to_num log_sigmoid angle deg2rad rad2deg cbrt sinc real conj heaviside
positive erfinv i0 bartlett cumsum cumprod ravel flip zeros_like ones_like
absolute isreal fix""".split()


@template
def ops_unary(r):
    f = r.choice(UNARY)
    a = {"cumsum": ", axis=1", "cumprod": ", axis=2"}.get(f, "")
    v = "O.sigmoid(x)" if f not in (
        "abs", "floor", "ceil", "sin", "cos", "negative", "sign", "round",
        "trunc", "relu", "square") else "x * 3"
    if f == "arccosh":
        v = "O.exp(O.abs(x))"
    return "O.%s(%s%s)" % (f, v, a), (4, 3)


@template
def ops_binary(r):
    f = pick(r, *"""add subtract multiply divide maximum minimum power mod
    arctan2 floor_divide equal not_equal greater greater_equal less less_equal
    logaddexp hypot copysign fmax fmin true_divide logical_and logical_xor
    divide_no_nan outer cross kron dot matmul tensordot inner vdot nextafter
    logaddexp2 squared_difference""".split())
    a, b = "x", "y"
    if f in ("power", "floor_divide", "mod"):
        a, b = "O.abs(x) + 0.5", "y * 0.7"
    if f.startswith("logical"):
        a, b = "x > 0", "y > 0"
    if f == "matmul":
        return "O.matmul(x, O.transpose(y, (0, 2, 1)))", (4, 3), (4, 3)
    if r.random() < 0.25 and f not in ("outer", "cross", "kron", "dot",
                                       "tensordot", "inner", "vdot",
                                       "logical_and", "logical_xor"):
        return "O.%s(%s, 0.7)" % (f, a), (4, 3)
    return "O.%s(%s, %s)" % (f, a, b), (4, 3), pick(r, (4, 3), (1, 3), (4, 1))


@template
def ops_reduce(r):
    f = pick(r, *"""mean sum max min prod var std all any argmax argmin
    logsumexp norm median count_nonzero amax amin average quantile nanmean
    ptp nansum nanmax cummax""".split())
    d = pick(r, 1, 2, -1, (1, 2), (2, 3))
    if f in ("argmax", "argmin", "cummax"):
        d = pick(r, 1, 2, 3, -1)
    k = ", keepdims=True" if r.random() < 0.5 and f not in (
        "average", "count_nonzero", "cummax") else ""
    v = "x > 0" if f in ("all", "any") else "x"
    if f == "norm":
        return "O.norm(x, %s, axis=%d%s)" % (pick(r, 1, 2, np.inf).__repr__(
        ).replace("inf", "np.inf"), pick(r, 1, -1), k), (4, 3, 5)
    if f == "quantile":
        return "O.quantile(x, 0.3, axis=%s%s)" % (d, k), (4, 3, 5)
    return "O.%s(%s, axis=%s%s)" % (f, v, d, k), (4, 3, 5)


@template
def ops_shape(r):
    return pick(r, *[
        "O.reshape(x, (-1, 4, 15))", "O.reshape(x, (-1, 60))",
        "O.transpose(x, (0, 3, 1, 2))", "O.expand_dims(x, 2)",
        "O.squeeze(x[:, :1], 1)", "O.concatenate([x, x * 2], axis=2)",
        "O.stack([x, x + 1], axis=1)", "O.stack([x, x + 1], axis=-1)",
        "O.split(x, 2, axis=1)", "O.split(x, [1, 3], axis=1)",
        "O.unstack(x, axis=2)", "O.tile(x, (1, 2, 1, 1))",
        "O.repeat(x, 2, axis=1)", "O.roll(x, 2, axis=1)", "O.flip(x, axis=2)",
        "O.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)))",
        "O.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)), constant_values=0.5)",
        "O.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)), mode='reflect')",
        "O.pad(x, ((0, 0), (1, 2), (1, 1), (0, 0)), mode='symmetric')",
        "x[:, 1:3, ::2]", "x[..., -1]", "x[:, None, 1]", "x[:, :, ::-1]",
        "O.moveaxis(x, 1, -1)", "O.swapaxes(x, 1, 2)", "O.rot90(x, axes=(1, 2))",
        "O.tril(x)", "O.triu(x, 1)", "O.diagonal(x, axis1=1, axis2=2)",
        "O.trace(x, axis1=1, axis2=2)", "O.diff(x, axis=1)",
        "O.einsum('bhwc,bhwd->bcd', x, x)", "O.einsum('bhwc->bcwh', x)",
        "O.einsum('bhwc,bhvc->bhwv', x, x)", "O.einsum('bhwc,bhwc->bh', x, x)",
        "O.einsum('bhwc,ck->bhwk', x, np.ones((5, 2), 'float32'))",
        "O.take(x, [2, 0], axis=1)", "O.take(x, 1, axis=2)",
        "O.take(x, np.array([[0, 1], [2, 1]]), axis=-1)",
        "O.take_along_axis(x, O.argmax(x, axis=1, keepdims=True), axis=1)",
        "O.top_k(x, 2)", "O.top_k(x, 3, sorted=True)[0]", "O.sort(x, axis=1)",
        "O.argsort(x, axis=-1)", "O.sort(x)", "O.cumsum(x, axis=2)",
        "O.broadcast_to(x[:, :1], (2, 4, 3, 5))", "O.where(x > 0, x, -x)",
        "O.where(x > 0, x, 0.5)", "O.clip(x, -0.5, 0.5)",
        "O.cast(x > 0, 'float32')", "O.cast(x * 3, 'int32')",
        "O.one_hot(O.argmax(x, axis=-1), 5)", "O.full_like(x, 2) + x",
        "O.arange(5, dtype='float32') + x", "O.linspace(0., 1., 5) * x",
        "O.eye(5) @ O.reshape(x, (-1, 5, 12))", "O.meshgrid(x[0, 0, 0], x[0, 0, 1])",
        "O.average(x, axis=1, weights=[0.1, 0.2, 0.3, 0.4])",
        "O.tensordot(x, x, axes=[[1, 2, 3], [1, 2, 3]])", "O.vectorize(O.sin)(x)",
        "O.normalize(x, axis=1)", "O.normalize(x, axis=-1, order=1)",
        "O.slice(x, (0, 1, 0, 0), (2, 2, 3, 5))", "O.unfold(x, 2, 1)" if False else "O.isclose(x, 0.1)",
        "O.digitize(x, np.array([-1., 0., 1.], 'float32'))", "O.searchsorted(np.array([-1., 0., 1.], 'float32'), x[:, 0, 0])",
        "O.correlate(x[0, 0, 0], x[0, 1, 0])", "O.bincount(O.cast(O.abs(x[:, 0, 0]), 'int32'), minlength=6)",
        "O.segment_sum(x[0, 0], [0, 0, 1], num_segments=2)", "O.in_top_k(O.argmax(x[:, 0, 0], -1), x[:, 0, 0], 2)",
        "O.logical_and(x > 0, x < 1)", "O.cast(x, 'float16')", "O.squeeze(O.mean(x, axis=2, keepdims=True), 2)",
        "O.max_pool(x, 2, 1)", "O.average_pool(x, (2, 3), (1, 2), 'same')",
        "O.conv(x, np.ones((2, 2, 5, 3), 'float32'), padding='same')",
        "O.depthwise_conv(x, np.ones((2, 2, 5, 1), 'float32'))",
        "O.separable_conv(x, np.ones((2, 2, 5, 1), 'float32'), np.ones((1, 1, 5, 2), 'float32'))",
        "O.conv_transpose(x, np.ones((2, 2, 3, 5), 'float32'), 2)",
        "O.batch_normalization(x, np.zeros(5, 'float32'), np.ones(5, 'float32') * 2, -1)",
        "O.layer_normalization(x, axis=-1)", "O.rms_normalization(x)",
        "O.dot_product_attention(x, x, x)", "O.multi_hot(O.cast(O.abs(x[:, 0, 0]), 'int32'), 4)",
        "O.moments(x, axes=[1, 2])", "O.scatter_update(x, [[0, 1, 1]], np.ones((1, 5), 'float32'))",
        "O.slice_update(x, (0, 1, 0, 0), np.ones((2, 1, 3, 5), 'float32'))",
        "O.nonzero(x)", "O.polar(x, x)", "O.fft((x, x))", "O.view_as_real(O.view_as_complex(O.stack([x, x], -1)))",
    ]), (4, 3, 5)


@template
def others(r):
    return pick(r, *[
        "L.Masking(0.)(x)", "L.GaussianNoise(0.2)(x)", "L.Dropout(0.3)(x)",
        "L.SpatialDropout1D(0.2)(x)", "L.ActivityRegularization(0.1)(x)",
        "L.Discretization(bin_boundaries=[-1., 0., 1.])(x)",
        "L.SpectralNormalization(L.Dense(3))(x)", "L.Lambda(lambda t: t * 2)(x)",
        "L.TimeDistributed(L.Dense(4, activation='relu'))(x)",
        "L.TimeDistributed(L.Reshape((2, 2)))(x)", "L.Wrapper(L.Dense(2))(x)" if False else "L.Identity()(x)",
        "keras.Sequential([L.Dense(5, 'relu'), L.LayerNormalization()])(x)",
        "L.RandomFlip()(O.expand_dims(x, -1))", "L.RandomCrop(3, 3)(O.expand_dims(x, -1))",
        "L.ReversibleEmbedding(5, 4)(O.cast(O.abs(x[..., 0]), 'int32'))",
        "L.RandomRotation(0.2)(O.expand_dims(x, -1))", "L.AugMix()(O.expand_dims(x, -1))",
        "L.MelSpectrogram(fft_length=8, sequence_stride=2, sequence_length=6)(L.Flatten()(x))",
        "L.STFTSpectrogram(frame_length=6, frame_step=2, fft_length=8)(x)",
        "L.ConvLSTM1D(3, 2, return_sequences=True)(O.reshape(x, (-1, 3, 2, 4)))",
        "L.HashedCrossing(5)((O.cast(x[:, 0, 0], 'int32'), O.cast(x[:, 0, 1], 'int32')))",
        "L.Hashing(5)(O.cast(x, 'int32'))", "L.CategoryEncoding(4)(O.cast(O.abs(x[:, 0]), 'int32'))",
        "L.IntegerLookup(vocabulary=[1, 2, 3])(O.cast(O.abs(x[:, 0] * 2), 'int32'))",
    ]), (6, 4)


@template
def network(r):
    """A chain of blocks on a picture."""
    y = "x"
    for _ in range(r.randint(2, 4)):
        c = pick(r, 4, 6, 8)
        y = pick(
            r, "L.ReLU(6.)(L.BatchNormalization()(L.Conv2D(%d, 3, strides=%d, "
            "padding='same', use_bias=False)(%s)))" % (c, pick(r, 1, 2), y),
            "L.MaxPooling2D(2, padding='same')(L.Conv2D(%d, 3, activation=%r, "
            "padding='same')(%s))" % (c, act(r), y),
            "(lambda t: L.Add()([t, L.Conv2D(%d, 3, padding='same')(t)]))("
            "L.Conv2D(%d, 1)(%s))" % (c, c, y),
            "(lambda t: L.Multiply()([t, L.Dense(%d, 'sigmoid')("
            "L.GlobalAveragePooling2D(keepdims=True)(t))]))(L.SeparableConv2D("
            "%d, 3)(%s))" % (c, c, y),
            "L.UpSampling2D(2, interpolation='bilinear')(L.Conv2DTranspose(%d, 2)"
            "(%s))" % (c, y),
            "L.LeakyReLU(0.2)(L.DepthwiseConv2D(3, padding='same')(L.ZeroPadding2D"
            "(((0, 1), (1, 0)))(%s)))" % y)
    return pick(r, "L.Dense(5, 'softmax')(L.GlobalAveragePooling2D()(%s))",
                "L.Dense(5)(L.Flatten()(%s))", "L.Conv2D(2, 1)(%s)",
                "L.Softmax()(L.Reshape((-1, 2))(L.Conv2D(2, 1)(%s)))") % y, (
                    *size(r, 2, 12, 16), 3)
