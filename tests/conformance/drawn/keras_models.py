# SPDX-License-Identifier: Apache-2.0
"""Templates of keras_graphs.py: networks of the kinds that users write, with
drawn sizes, and classes of their own, which go out as SavedModel, frozen graph
and .tflite."""
import keras
import tensorflow as tf
from keras_cases import L, O, NAMES, act, pick, size, template


def norm(r):
    return pick(r, "L.BatchNormalization()", "L.LayerNormalization()",
                "L.GroupNormalization(2)")


@template
def temporal_convolutions(r):
    """Dilated causal convolutions with skip connections."""
    c, y = 2 * r.randint(2, 4), "x"
    y = "L.Conv1D(%d, 1)(%s)" % (c, y)
    for i in range(r.randint(1, 3)):
        y = ("(lambda t: L.Add()([t, L.SpatialDropout1D(0.1)(L.Activation(%r)("
             "%s(L.Conv1D(%d, %d, padding='causal', dilation_rate=%d)(t)))))]))"
             "(%s)" % (pick(r, "relu", "swish", "elu"), norm(r), c,
                       r.randint(2, 3), 2 ** i, y))
    return pick(r, "L.Dense(3)(L.GlobalAveragePooling1D()(%s))",
                "L.Dense(3)((%s)[:, -1])",
                "L.Dense(2, 'softmax')(L.MaxPooling1D(2)(%s))") % y, (
                    r.randint(9, 14), r.randint(1, 4))


@template
def stacked_recurrent(r):
    k = pick(r, "LSTM", "GRU", "SimpleRNN")
    y = "L.%s(%d, return_sequences=True%s)(x)" % (
        k, r.randint(3, 6), pick(r, "", ", recurrent_dropout=0.1"))
    if r.random() < 0.5:
        y = "L.Bidirectional(L.%s(%d, return_sequences=True))(%s)" % (
            k, r.randint(2, 5), y)
    y = pick(r, "L.%s(4)(%s)" % (k, y),
             "L.TimeDistributed(L.Dense(3, activation='relu'))(%s)" % y,
             "(lambda o: L.Concatenate()(list(o)))(L.%s(4, return_state=True)"
             "(%s))" % (k, y),
             "L.Attention()([%s, %s])" % (y, y))
    return y, (r.randint(4, 8), r.randint(2, 5))


@template
def encoder_decoder(r):
    """The state of one recurrent layer is another's first."""
    k = pick(r, "LSTM", "GRU")
    n = r.randint(3, 5)
    return ("(lambda o: L.Dense(3)(L.%s(%d, return_sequences=True)(y, "
            "initial_state=list(o[1:]))))(L.%s(%d, return_state=True)(x))" % (
                k, n, k, n), (r.randint(3, 5), 3), (r.randint(3, 6), 2))


@template
def transformer(r):
    h, d = r.randint(1, 3), 2 * r.randint(2, 4)
    position = ("(lambda t: t + L.Embedding(%d, %d)(O.arange(t.shape[1])))" % (
        16, d) if r.random() < 0.5 else "(lambda t: t)")
    y = "%s(L.Dense(%d)(x))" % (position, d)
    for _ in range(r.randint(1, 2)):
        y = ("(lambda t: L.LayerNormalization()(L.Add()([t, "
             "L.MultiHeadAttention(%d, %d)(t, t%s)])))(%s)" % (
                 h, r.randint(2, 4), pick(r, "", ", use_causal_mask=True"), y))
        y = ("(lambda t: L.Add()([t, L.Dense(%d)(L.Dense(%d, %r)("
             "L.LayerNormalization(epsilon=1e-6)(t)))]))(%s)" % (
                 d, 2 * d, pick(r, "gelu", "relu", "swish"), y))
    return pick(r, "L.Dense(3)(L.GlobalAveragePooling1D()(%s))",
                "L.Dense(3)(L.Flatten()(%s))",
                "L.Dense(2)(%s[:, 0])") % y, (r.randint(4, 8), r.randint(2, 5))


@template
def picture_transformer(r):
    p, d = pick(r, 2, 4), 2 * r.randint(2, 4)
    n = r.randint(2, 3)
    return ("(lambda t: L.Dense(4)(L.LayerNormalization()(L.Add()([t, "
            "L.MultiHeadAttention(2, 3)(t, t)]))))(L.Reshape((%d, %d))("
            "L.Conv2D(%d, %d, strides=%d)(x)))" % (n * n, d, d, p, p),
            (n * p, n * p, 3))


@template
def unet(r):
    n = pick(r, 1, 2, 2, 3)
    c, a = 2 * r.randint(1, 3), act(r) or "relu"
    up = pick(r, "L.UpSampling%dD(2)(%%s)" % n,
              "L.Conv%dDTranspose(%d, 2, strides=2)(%%s)" % (n, c)) % (
                  "L.Conv%dD(%d, 3, padding='same', activation=%r)(m)" % (
                      n, 2 * c, a))
    return ("(lambda t: L.Conv%dD(2, 1)(L.Concatenate()([t, (lambda m: %s)("
            "L.%sPooling%dD(2)(%s(t)))])))(L.Conv%dD(%d, 3, padding='same')(x))"
            % (n, up, pick(r, "Max", "Average"), n, norm(r), n, c),
            (*[2 * r.randint(2, 5) for _ in range(n)], r.randint(1, 3)))


@template
def volume(r):
    c = r.randint(2, 4)
    y = "L.Conv3D(%d, %s, strides=%s, padding=%r)(x)" % (
        c, pick(r, 3, (1, 3, 3)), pick(r, 1, (1, 2, 2)),
        pick(r, "same", "valid"))
    y = pick(r, "L.ReLU()(%s(%s))" % (norm(r).replace(
        "Group", "Layer").replace("(2)", "()"), y), y)
    return pick(r, "L.GlobalMaxPooling3D()(%s)", "L.Conv3DTranspose(2, 2)(%s)",
                "L.TimeDistributed(L.GlobalAveragePooling2D())(%s)",
                "L.Cropping3D(1)(L.ZeroPadding3D(2)(%s))",
                "L.UpSampling3D(2)(%s)") % y, (*size(r, 3, 5, 7), 2)


@template
def frames(r):
    """A recurrent layer over what a convolution says of each frame."""
    y = pick(r, "L.TimeDistributed(L.Flatten())(L.TimeDistributed(L.Conv2D(3, "
             "3, activation='relu'))(x))",
             "L.TimeDistributed(L.GlobalAveragePooling2D())(L.TimeDistributed("
             "L.SeparableConv2D(3, 3))(x))")
    y = pick(r, "L.LSTM(3)(%s)" % y, "L.GRU(3)(%s)" % y,
             "L.GlobalMaxPooling1D()(%s)" % y,
             "L.ConvLSTM2D(2, 3, padding='same', return_sequences=%s)(x)" %
             pick(r, True, False))
    return y, (r.randint(2, 4), 5, 6, 2)


@template
def read_lines(r):
    """Text from pictures: columns become steps."""
    return ("L.Dense(5, 'softmax')(L.Bidirectional(L.%s(3, return_sequences="
            "True))(L.Reshape((%d, -1))(L.Permute((2, 1, 3))(L.MaxPooling2D(2)("
            "L.Conv2D(4, 3, padding='same', activation='relu')(x))))))" % (
                pick(r, "LSTM", "GRU"), 5), (6, 10, 1))


@template
def preprocessing(r):
    y = pick(r, "L.Rescaling(1 / 127.5, offset=-1)(x)",
             "L.Normalization(mean=[120., 110., 100.], variance=[9., 4., 16.])"
             "(x)", "L.Rescaling(1 / 255)(L.Resizing(8, 9)(x))",
             "L.Rescaling(1 / 255)(L.CenterCrop(6, 6)(x))",
             "L.RandomContrast(0.2)(L.RandomFlip()(x))",
             "L.RandomZoom(0.2)(L.RandomTranslation(0.1, 0.1)(x))",
             "keras.applications.imagenet_utils.preprocess_input(x, mode=%r)" %
             pick(r, "tf", "torch", "caffe"))
    return "L.Conv2D(2, 3)(%s)" % y, (*size(r, 2, 8, 10), 3)


@template
def categories(r):
    n = r.randint(3, 6)
    return pick(
        r, "L.Dense(2)(L.Flatten()(L.Embedding(%d, 3)(x)))" % n,
        "L.CategoryEncoding(%d, output_mode=%r)(x)" % (
            n, pick(r, "multi_hot", "one_hot", "count")),
        "L.Dense(2)(L.GlobalAveragePooling1D()(L.Embedding(%d, 3, mask_zero=%s)"
        "(x)))" % (n, pick(r, True, False)),
        "L.LSTM(3)(L.Embedding(%d, 3, mask_zero=True)(x))" % n,
        "L.Dense(2)(L.Conv1D(3, 2)(L.Embedding(%d, 4)(x)))" % n,
        "L.IntegerLookup(vocabulary=[0, 1, 2], output_mode=%r)(x)" % pick(
            r, "int", "one_hot", "multi_hot")), {
                "int": n, "shape": (r.randint(3, 5),)}


@template
def two_towers(r):
    """One network for two inputs, and their distance."""
    f = pick(r, "L.Dense(4, 'relu')", "keras.Sequential([L.Dense(5, 'relu'), "
             "L.BatchNormalization(), L.Dense(3)])")
    return "(lambda f: %s)(%s)" % (pick(
        r, "L.Dot(1, normalize=True)([f(x), f(y)])",
        "L.Dense(1, 'sigmoid')(O.abs(L.Subtract()([f(x), f(y)])))",
        "O.sqrt(O.sum(O.square(f(x) - f(y)), axis=1, keepdims=True) + 1e-7)",
        "L.Concatenate()([f(x), f(y), L.Multiply()([f(x), f(y)])])"), f), (
            6,), (6,)


@template
def branches(r):
    y = ["L.Conv2D(%d, %d, padding='same', activation='relu')(x)" % (
        r.randint(1, 4), k) for k in r.sample([1, 3, 5], 2)]
    y.append("L.Conv2D(2, 1)(L.%sPooling2D(3, strides=1, padding='same')(x))" %
             pick(r, "Max", "Average"))
    return "[%s, L.Dense(3)(L.GlobalMaxPooling2D()(x))]" % (
        "L.Concatenate()([%s])" % ", ".join(y)) if r.random() < 0.5 else \
        "L.GlobalAveragePooling2D()(L.Concatenate()([%s]))" % ", ".join(y), (
            *size(r, 2, 6, 9), r.randint(1, 3))


# ---- classes of the user's own -------------------------------------------


def own(c):
    NAMES[c.__name__] = c
    return c


@own
class Residual(keras.layers.Layer):
    def __init__(self, n, kernel, stride=1, **k):
        super().__init__(**k)
        self.one = L.Conv2D(n, kernel, stride, "same", use_bias=False)
        self.norm = L.BatchNormalization()
        self.two = L.Conv2D(n, kernel, padding="same")
        self.way = L.Conv2D(n, 1, stride, "same")

    def call(self, x, training=False):
        y = keras.activations.relu(self.norm(self.one(x), training=training))
        return keras.activations.relu(self.two(y) + self.way(x))


@own
class Scale(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), name="scale",
                                     initializer="uniform")

    def call(self, x):
        return x * (1 + self.scale)


@own
class OwnAttention(keras.layers.Layer):
    def __init__(self, n, **k):
        super().__init__(**k)
        self.q, self.k, self.v = L.Dense(n), L.Dense(n), L.Dense(n)
        self.n = n

    def call(self, x):
        a = tf.matmul(self.q(x), self.k(x), transpose_b=True)
        return tf.matmul(tf.nn.softmax(a / self.n ** 0.5, -1), self.v(x))


@own
class Raw(keras.layers.Layer):
    """Operators of TensorFlow by their own names."""

    def __init__(self, text, **k):
        super().__init__(**k)
        self.text = text

    def call(self, x):
        return eval(self.text, {"tf": tf}, {"x": x})


@template
def own_classes(r):
    return pick(
        r, "L.Dense(3)(L.GlobalAveragePooling2D()(Residual(%d, 3, %d)(Residual("
        "3, 1)(x))))" % (r.randint(2, 5), r.randint(1, 2)),
        "Scale()(Residual(4, 3)(x))",
        "OwnAttention(%d)(L.Reshape((-1, 3))(x))" % r.randint(2, 5)), (
            *size(r, 2, 6, 9), 3)


RAW = """tf.image.resize(x, (5, 9))
tf.image.resize(x, (5, 9), antialias=True)
tf.image.resize(x, (11, 13), method='bicubic')
tf.image.resize(x, (11, 5), method='nearest')
tf.image.resize_with_pad(x, 9, 9)
tf.image.resize_with_crop_or_pad(x, 9, 5)
tf.image.central_crop(x, 0.5)
tf.image.per_image_standardization(x)
tf.image.rgb_to_grayscale(x)
tf.image.rgb_to_yuv(x)
tf.image.flip_left_right(x)
tf.image.rot90(x)
tf.image.adjust_contrast(x, 1.5)
tf.image.adjust_brightness(x, 0.3)
tf.image.crop_to_bounding_box(x, 1, 2, 4, 3)
tf.image.pad_to_bounding_box(x, 1, 2, 12, 13)
tf.image.extract_patches(x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], 'VALID')
tf.image.crop_and_resize(x, [[.1, .2, .8, .9], [0., 0., 1.2, .7]], [0, 1], (4, 5))
tf.image.crop_and_resize(x, [[.9, .2, .1, .9]], [0], (1, 3), extrapolation_value=2.)
tf.image.sobel_edges(x)
tf.image.total_variation(x)
tf.nn.conv2d(x, tf.ones((2, 2, 3, 4)), 1, [[0, 0], [1, 2], [0, 1], [0, 0]])
tf.nn.depthwise_conv2d(x, tf.ones((2, 2, 3, 2)), [1, 1, 1, 1], 'SAME', dilations=[2, 2])
tf.nn.separable_conv2d(x, tf.ones((2, 2, 3, 1)), tf.ones((1, 1, 3, 2)), [1, 1, 1, 1], 'SAME')
tf.nn.conv2d_transpose(x, tf.ones((3, 3, 4, 3)), (2, 16, 16, 4), 2, 'SAME')[:, :7]
tf.nn.atrous_conv2d(x, tf.ones((2, 2, 3, 4)), 2, 'VALID')
tf.nn.max_pool2d(x, 3, 2, 'SAME')
tf.nn.avg_pool2d(x, (2, 3), 1, 'VALID')
tf.nn.max_pool_with_argmax(x, 2, 2, 'VALID')[0]
tf.nn.local_response_normalization(x, 2, 1., 0.5, 0.6)
tf.nn.l2_normalize(x, -1)
tf.nn.moments(x, [1, 2])[1]
tf.nn.batch_normalization(x, 0.1, 2., 0.3, 1.5, 1e-3)
tf.nn.space_to_depth(x[:, :6, :6], 2)
tf.nn.depth_to_space(tf.concat([x, x, x, x], -1), 2)
tf.nn.log_softmax(x)
tf.nn.crelu(x)
tf.nn.softsign(x) + tf.nn.softplus(x) + tf.nn.selu(x) + tf.nn.relu6(x)
tf.nn.gelu(x, approximate=True)
tf.nn.top_k(x, 2)[0]
tf.nn.top_k(x, 2)[1]
tf.nn.dilation2d(x, tf.ones((2, 2, 3)), [1, 1, 1, 1], 'SAME', 'NHWC', [1, 1, 1, 1])
tf.nn.erosion2d(x, tf.ones((2, 2, 3)), [1, 1, 1, 1], 'SAME', 'NHWC', [1, 1, 1, 1])
tf.nn.bias_add(x, [1., 2., 3.])
tf.nn.embedding_lookup(tf.ones((4, 3)), tf.argmax(x, -1))
tf.reduce_logsumexp(x, -1)
tf.math.reduce_std(x, [1, 2])
tf.math.reduce_variance(x, 1)
tf.math.cumsum(x, 1, exclusive=True, reverse=True)
tf.math.cumprod(x, 2)
tf.math.l2_normalize(x, 1)
tf.math.segment_sum(x[0], [0, 0, 1, 1, 1, 2, 2])
tf.math.unsorted_segment_max(x[0], [0, 2, 1, 1, 0, 2, 2], 3)
tf.math.squared_difference(x, 0.5)
tf.math.divide_no_nan(x, tf.nn.relu(x))
tf.math.xdivy(x, 2.) + tf.math.xlogy(tf.abs(x), 3.)
tf.math.igamma(tf.abs(x) + 1., 2.)
tf.math.is_nan(x)
tf.math.count_nonzero(tf.nn.relu(x), 1)
tf.math.bincount(tf.cast(tf.abs(x[0, 0, 0]), tf.int32), minlength=4)
tf.math.polyval([1., 2., 3.], x)
tf.clip_by_value(x, -0.5, 0.5)
tf.clip_by_norm(x, 2., axes=[-1])
tf.one_hot(tf.argmax(x, -1), 3, 2., -1.)
tf.gather(x, [2, 0], axis=2)
tf.gather(x, tf.argmax(x, -1), axis=3, batch_dims=3)
tf.gather_nd(x, [[0, 1], [1, 2]])
tf.scatter_nd([[0], [2]], tf.ones((2, 3)), (4, 3)) + x[0, :4, 0]
tf.tensor_scatter_nd_update(x[0], [[0], [2]], tf.ones((2, 7, 3)))
tf.tensor_scatter_nd_add(x[0], [[0], [2]], tf.ones((2, 7, 3)))
tf.boolean_mask(x, [True, False, True], axis=3)
tf.where(x > 0, x, tf.zeros_like(x))
tf.reverse(x, [1, 2])
tf.roll(x, [1, -2], [1, 2])
tf.tile(x, [1, 2, 1, 2])
tf.repeat(x, 2, 1)
tf.stack(tf.unstack(x, axis=3), 1)
tf.split(x, [3, 4], 1)[1]
tf.strided_slice(x, [0, 1, 0], [2, 6, 7], [1, 2, 3])
tf.transpose(x, [0, 3, 1, 2])[..., ::-1]
x[:, tf.newaxis, ..., 1]
tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], 'REFLECT')
tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], 'SYMMETRIC')
tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], constant_values=0.3)
tf.space_to_batch(x[:, :6, :6], [2, 2], [[0, 0], [0, 0]])
tf.batch_to_space(tf.concat([x, x], 0), [2, 2], [[0, 1], [1, 0]])
tf.einsum('bhwc,bhwd->bcd', x, x)
tf.linalg.matmul(x, x, transpose_b=True)
tf.linalg.band_part(x, 1, 0)
tf.linalg.diag_part(x[..., 0])
tf.linalg.diag(x[..., 0])
tf.linalg.norm(x, axis=-1)
tf.linalg.trace(x[..., 0])
tf.linalg.inv(x[:, :3, :3, 0] + 3. * tf.eye(3))
tf.linalg.det(x[:, :3, :3, 0])
tf.linalg.set_diag(x[..., 0], x[:, 0, :, 0])
tf.signal.frame(x[:, 0, :, 0], 3, 2)
tf.sort(x, axis=1)
tf.argsort(x, axis=-1, direction='DESCENDING')
tf.searchsorted([-1., 0., 1.], x[0, 0, 0])
tf.meshgrid(x[0, 0, 0], x[0, 0, 1])[1]
tf.broadcast_to(x[:1], (2, 7, 7, 3))
tf.fill((2, 3), 0.5) + x[0, 0, 0]
tf.range(7.) + x[0, 0, :, 0]
tf.linspace(0., 1., 3) * x
tf.cast(tf.round(x), tf.int32) // 2
tf.cast(x * 3, tf.int32) % 3
tf.bitwise.bitwise_and(tf.cast(x * 9, tf.int32), 6)
tf.quantization.fake_quant_with_min_max_args(x, -3, 3)
tf.quantization.quantize_and_dequantize_v2(x, -3., 3., range_given=True)
tf.map_fn(lambda v: v * 2. + 1., x)
tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 1.5), (0, x))[1]
tf.cond(tf.shape(x)[1] > 3, lambda: x + 1., lambda: x)
tf.switch_case(1, [lambda: x, lambda: x * 2.])
tf.scan(lambda a, v: a + v, x)
tf.vectorized_map(lambda v: tf.reduce_sum(v), x)
tf.ensure_shape(x, (2, 7, 7, 3)) * 2.
tf.reshape(x, tf.concat([tf.shape(x)[:1], [-1]], 0))
tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] * tf.shape(x)[2], 3])
tf.raw_ops.Softmax(logits=x)
tf.random.uniform((2, 3)) * 0. + x[0, 0, 0]""".splitlines()


@template
def raw_operators(r):
    return "Raw(%r)(%s)" % (pick(r, *RAW), pick(
        r, "x", "x", "L.Conv2D(3, 3, padding='same')(x)")), (7, 7, 3)
