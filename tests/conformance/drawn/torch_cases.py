# SPDX-License-Identifier: Apache-2.0
"""Templates of torch_layers.py: layers and functions whose arguments are drawn."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEMPLATES = {}


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


class Case:
    def __init__(self, module, inputs, text, free):
        self.module, self.inputs = module, inputs
        self.text, self.free = text, free


def template(free=1):
    """free: 0 no axis may be free, 1 the batch, 1+n also the last n axes."""
    def add(f):
        TEMPLATES[f.__name__] = (f, free)
        return f
    return add


def draw_case(name, draw):
    f, free = TEMPLATES[name]
    module, *inputs = f(draw)
    text = name
    if isinstance(module, str):  # an expression of x, y, z and w
        text, names = module, "xyzw"[:len(inputs)]
        scope = {"torch": torch, "F": F}
        module = Function(eval("lambda %s: %s" % (",".join(names), text),
                               scope))
    elif not isinstance(module, nn.Module):
        module = Function(module)
    else:
        text = " ".join(repr(module).split())[:160]
    return Case(module, [x if torch.is_tensor(x) else torch.randn(x)
                         for x in inputs], text, free)


def enliven(module, inputs):
    """Weights and statistics in which a mistake shows."""
    g = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in module.parameters():
            if p.is_floating_point() and p.numel() and bool(
                    (p == p.flatten()[0]).all()):
                p.copy_(p + 0.4 * (torch.rand(p.shape, generator=g) - 0.3))
        for b in module.buffers():
            if b.is_floating_point() and b.ndim == 1 and b.numel() > 1:
                b.copy_(0.5 + torch.rand(b.shape, generator=g))


def pick(r, *c):
    return r.choice(c)


def tup(r, n, low, high):
    """One number, or one a dimension."""
    if r.random() < 0.5:
        return r.randint(low, high)
    return tuple(r.randint(low, high) for _ in range(n))


def size(r, n, low=7, high=14):
    return [r.randint(low, high) for _ in range(n)]


def conv(r, n):
    g = pick(r, 1, 1, 2, 3)
    pad = pick(r, "valid", "same", None, None, None)
    stride = 1 if pad == "same" else tup(r, n, 1, 3)
    return getattr(nn, "Conv%dd" % n)(
        g * r.randint(1, 4), g * r.randint(1, 4), tup(r, n, 1, 4), stride,
        tup(r, n, 0, 3) if pad is None else pad, tup(r, n, 1, 2), g,
        bool(r.randint(0, 1)),
        pick(r, "zeros", "zeros", "reflect", "replicate", "circular"))


@template(2)
def conv1d(r):
    m = conv(r, 1)
    return m, (r.randint(1, 3), m.in_channels, *size(r, 1))


@template(3)
def conv2d(r):
    m = conv(r, 2)
    return m, (r.randint(1, 3), m.in_channels, *size(r, 2))


@template(4)
def conv3d(r):
    m = conv(r, 3)
    return m, (r.randint(1, 2), m.in_channels, *size(r, 3, 6, 9))


def transposed(r, n):
    g = pick(r, 1, 1, 2)
    s = tuple(r.randint(1, 3) for _ in range(n))
    d = tuple(r.randint(1, 2) for _ in range(n))
    return getattr(nn, "ConvTranspose%dd" % n)(
        g * r.randint(1, 3), g * r.randint(1, 3), tup(r, n, 1, 4), s,
        tup(r, n, 0, 1), tuple(r.randint(0, max(a, b) - 1)
                               for a, b in zip(s, d)), g,
        bool(r.randint(0, 1)), d)


@template(2)
def conv_transpose1d(r):
    m = transposed(r, 1)
    return m, (2, m.in_channels, *size(r, 1, 4, 8))


@template(3)
def conv_transpose2d(r):
    m = transposed(r, 2)
    return m, (2, m.in_channels, *size(r, 2, 4, 8))


@template(4)
def conv_transpose3d(r):
    m = transposed(r, 3)
    return m, (1, m.in_channels, *size(r, 3, 3, 5))


@template(3)
def weight_in(r):
    g = pick(r, 1, 2)
    return ("F.conv2d(x, y, None, %d, %d, 1, %d)" % (
        r.randint(1, 2), r.randint(0, 1), g), (2, 2 * g, *size(r, 2)),
        (2 * g, 2, 3, 3))


TEMPLATES["weight_in"] = (weight_in, 0)


def pool(r, n, kind):
    k = tuple(r.randint(2, 4) for _ in range(n))
    a = dict(stride=pick(r, None, tup(r, n, 1, 3)),
             padding=r.randint(0, min(k) // 2),
             ceil_mode=bool(r.randint(0, 1)))
    if kind == "Max":
        a["dilation"] = pick(r, 1, 1, 2)
        a["return_indices"] = r.random() < 0.25
    else:
        a["count_include_pad"] = bool(r.randint(0, 1))
        if n > 1 and r.random() < 0.25:
            a["divisor_override"] = r.randint(1, 9)
    return getattr(nn, "%sPool%dd" % (kind, n))(k if n > 1 else k[0], **a)


for n in (1, 2, 3):
    for kind in ("Max", "Avg"):
        def f(r, n=n, kind=kind):
            return pool(r, n, kind), (2, r.randint(1, 4), *size(r, n, 8, 12))
        f.__name__ = "%spool%dd" % (kind.lower(), n)
        template(1 + n)(f)


@template(3)
def lppool(r):
    n = pick(r, 1, 2)
    return getattr(nn, "LPPool%dd" % n)(
        pick(r, 1, 2, 3), r.randint(2, 3), pick(r, None, 1, 2),
        bool(r.randint(0, 1))), torch.rand(2, 3, *size(r, n))


@template(1)
def adaptive(r):
    n = r.randint(1, 3)
    kind = pick(r, "Avg", "Max")
    s = size(r, n, 6, 12)
    out = [pick(r, 1, r.randint(1, 6), x // 2, x, None) for x in s]
    return getattr(nn, "Adaptive%sPool%dd" % (kind, n))(
        out if n > 1 else out[0] or 1), (2, 3, *s)


@template(3)
def batchnorm(r):
    n = r.randint(1, 3)
    c = r.randint(2, 6)
    m = getattr(nn, "BatchNorm%dd" % n)(
        c, pick(r, 1e-5, 1e-3, 0.1), affine=bool(r.randint(0, 1)),
        track_running_stats=r.random() < 0.85)
    return m, ((3, c, *size(r, n, 3, 6)) if n > 1 or r.random() < 0.5
               else (3, c))


@template(3)
def instancenorm(r):
    n = r.randint(1, 3)
    c = r.randint(2, 6)
    m = getattr(nn, "InstanceNorm%dd" % n)(
        c, pick(r, 1e-5, 1e-3), affine=bool(r.randint(0, 1)),
        track_running_stats=bool(r.randint(0, 1)))
    return m, (2, c, *size(r, n, 3, 6))


@template(3)
def groupnorm(r):
    g = r.randint(1, 4)
    c = g * r.randint(1, 3)
    return nn.GroupNorm(g, c, affine=bool(r.randint(0, 1))), (
        2, c, *size(r, r.randint(1, 3), 3, 6))


@template(1)
def layernorm(r):
    s = size(r, r.randint(1, 3), 2, 6)
    return pick(r, nn.LayerNorm(s, pick(r, 1e-5, 1e-2),
                                bool(r.randint(0, 1))),
                nn.RMSNorm(s, pick(r, None, 1e-3), bool(r.randint(0, 1)))), (
        2, *size(r, r.randint(0, 1), 2, 5), *s)


@template(3)
def localnorm(r):
    return nn.LocalResponseNorm(r.randint(1, 5), 10 ** -r.uniform(0, 3),
                                r.uniform(0.5, 1), r.uniform(0.5, 2)), (
        2, r.randint(3, 7), *size(r, r.randint(1, 2), 3, 6))


@template(2)
def activation(r):
    u = r.uniform
    return pick(
        r, nn.CELU(u(0.3, 2)), nn.ELU(u(0.3, 2)), nn.GELU("none"),
        nn.GELU("tanh"), nn.GLU(pick(r, 1, -1, 2)), nn.Hardshrink(u(0, 1)),
        nn.Hardsigmoid(), nn.Hardswish(), nn.Hardtanh(-u(0, 2), u(0, 2)),
        nn.LeakyReLU(u(-0.5, 1.5)), nn.LogSigmoid(), nn.LogSoftmax(1),
        nn.Mish(), nn.PReLU(pick(r, 1, 4)), nn.ReLU6(), nn.RReLU(0.1, 0.3),
        nn.SELU(), nn.SiLU(), nn.Sigmoid(), nn.Softmax(-1),
        nn.Softmax2d(), nn.Softmin(1), nn.Softplus(u(0.5, 3), u(0.5, 20)),
        nn.Softshrink(u(0, 1)), nn.Softsign(), nn.Tanh(), nn.Tanhshrink(),
        nn.Threshold(u(-1, 1), u(-9, 9))), (2, 4, *size(r, 2, 2, 6))


@template(3)
def padding(r):
    n = r.randint(1, 3)
    kind = pick(r, "Constant", "Reflection", "Replication", "Zero", "Circular")
    low = -1 if kind in ("Constant", "Zero", "Replication") else 0
    p = tuple(r.randint(low, 3) for _ in range(2 * n))
    if r.random() < 0.3:
        p = r.randint(0, 3)
    m = getattr(nn, "%sPad%dd" % (kind, n))
    return (m(p, r.uniform(-2, 2)) if kind == "Constant" else m(p)), (
        2, 3, *size(r, n, 4, 7))


@template(1)
def upsample(r):
    n = r.randint(1, 3)
    mode = pick(r, "nearest", "nearest-exact", "linear", "linear", "cubic",
                "area")
    mode = {"linear": ("linear", "bilinear", "trilinear")[n - 1],
            "cubic": "bicubic"}.get(mode, mode)
    n = 2 if mode == "bicubic" else n
    s = size(r, n, 3, 7)
    align = (pick(r, True, False, None) if "linear" in mode or "cubic" in mode
             else None)
    how = pick(r, "size=%s" % [r.randint(2, 12) for _ in s],
               "scale_factor=%s" % pick(r, 2, 3, 0.5, 1.5, 2.3),
               "scale_factor=%s" % [pick(r, 2.0, 0.7, 1.3) for _ in s],
               "scale_factor=%s, recompute_scale_factor=True" %
               pick(r, 1.7, 0.6))
    anti = (", antialias=True" if mode in ("bilinear", "bicubic")
            and r.random() < 0.2 else "")
    return ("F.interpolate(x, %s, mode=%r, align_corners=%s%s)" % (
        how, mode, align, anti), (2, 3, *s))


@template(3)
def shuffle(r):
    k = r.randint(1, 3)
    return pick(
        r, (nn.PixelShuffle(k), (2, 2 * k * k, 3, 4)),
        (nn.PixelUnshuffle(k), (2, 2, 3 * k, 4 * k)),
        (nn.ChannelShuffle(k), (2, 2 * k, 3, 4)))


@template(1)
def fold(r):
    k, s, p, d = (tup(r, 2, 1, 3), tup(r, 2, 1, 2), tup(r, 2, 0, 1),
                  tup(r, 2, 1, 2))
    if r.random() < 0.5:
        return nn.Unfold(k, d, p, s), (2, 3, *size(r, 2, 7, 9))
    h, w = size(r, 2, 7, 9)
    x = F.unfold(torch.randn(2, 3, h, w), k, d, p, s)
    return nn.Fold((h, w), k, d, p, s), x


@template(1)
def linear(r):
    a, b = r.randint(1, 6), r.randint(1, 6)
    return pick(r, (nn.Linear(a, b, bool(r.randint(0, 1))),
                    (3, *size(r, r.randint(0, 3), 2, 4), a)),
                (nn.Bilinear(a, b, 3, bool(r.randint(0, 1))), (4, a), (4, b)))


@template(1)
def embedding(r):
    n, d = r.randint(4, 9), r.randint(1, 5)
    i = torch.randint(0, n, (3, 4))
    return pick(
        r, (nn.Embedding(n, d, pick(r, None, 1)), i),
        (nn.EmbeddingBag(n, d, mode=pick(r, "sum", "mean", "max")), i))


@template(1)
def recurrent(r):
    kind = pick(r, "LSTM", "GRU", "RNN")
    a = dict(num_layers=r.randint(1, 2), bias=bool(r.randint(0, 1)),
             batch_first=bool(r.randint(0, 1)),
             bidirectional=bool(r.randint(0, 1)))
    if kind == "LSTM" and r.random() < 0.2:
        a["proj_size"] = 2
    if kind == "RNN":
        a["nonlinearity"] = pick(r, "tanh", "relu")
    return getattr(nn, kind)(3, 4, **a), (2, 5, 3)


TEMPLATES["recurrent"] = (recurrent, 0)


@template(1)
def cells(r):
    b = bool(r.randint(0, 1))
    return pick(r, (nn.LSTMCell(3, 4, b), (2, 3)), (nn.GRUCell(3, 4, b), (2, 3)),
                (nn.RNNCell(3, 4, b, pick(r, "tanh", "relu")), (2, 3),
                 (2, 4)))


class Attend(nn.Module):
    def __init__(self, mask, **a):
        super().__init__()
        self.m, self.mask = nn.MultiheadAttention(**a), mask

    def forward(self, q, k, v):
        return self.m(q, k, v, attn_mask=self.mask)


@template(1)
def attention(r):
    e = 8
    first = bool(r.randint(0, 1))
    a = dict(embed_dim=e, num_heads=pick(r, 1, 2, 4),
             bias=bool(r.randint(0, 1)), add_bias_kv=r.random() < 0.2,
             add_zero_attn=r.random() < 0.2, batch_first=first)
    other = r.random() < 0.3
    if other:
        a.update(kdim=5, vdim=6)
    mask = pick(r, None, torch.randn(3, 4), torch.rand(3, 4) < 0.3)

    def s(n, c):
        return (2, n, c) if first else (n, 2, c)
    return (Attend(mask, **a), s(3, e), s(4, a.get("kdim", e)),
            s(4, a.get("vdim", e)))


TEMPLATES["attention"] = (attention, 0)


@template(1)
def transformer(r):
    k = dict(d_model=8, nhead=pick(r, 1, 2), dim_feedforward=12,
             activation=pick(r, "relu", "gelu"), batch_first=True,
             norm_first=bool(r.randint(0, 1)), bias=r.random() < 0.8)
    if r.random() < 0.6:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(**k),
                                     r.randint(1, 2)), (2, 5, 8)
    return nn.TransformerDecoderLayer(**k), (2, 5, 8), (2, 3, 8)


class Padded(nn.Module):
    """Attention of a sequence to itself, with a mask that is an input."""

    def __init__(self, m, keys):
        super().__init__()
        self.m, self.keys = m, keys

    def forward(self, x, mask):
        if isinstance(self.m, nn.MultiheadAttention):
            if self.keys:
                return self.m(x, x, x, key_padding_mask=mask)
            return self.m(x, x, x, attn_mask=mask)
        if self.keys:
            return self.m(x, src_key_padding_mask=mask)
        return self.m(x, src_mask=mask)


def masks(r):
    keys = r.random() < 0.5
    m = pick(r, nn.MultiheadAttention(8, pick(r, 1, 2), batch_first=True),
             nn.TransformerEncoderLayer(8, 2, 12, batch_first=True,
                                        norm_first=r.random() < 0.5))
    mask = torch.rand((2, 5) if keys else (5, 5)) < 0.4
    mask[:, 0] = False  # every query sees a key
    return Padded(m, keys), (2, 5, 8), mask


TEMPLATES["masks"] = (masks, 0)


@template(0)
def sdpa(r):
    causal = bool(r.randint(0, 1))
    s = pick(r, (2, 2), (2,), ())
    return pick(
        r, ("F.scaled_dot_product_attention(x, y, z, is_causal=%s, scale=%s)"
            % (causal, pick(r, None, 0.3)), (*s, 3, 4), (*s, 5, 4),
            (*s, 5, 6)),
        ("F.scaled_dot_product_attention(x, y, z, w)", (*s, 3, 4), (*s, 5, 4),
         (*s, 5, 6), torch.rand(3, 5) < 0.7),
        ("F.scaled_dot_product_attention(x, y, z, enable_gqa=True)",
         (2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)))


@template(0)
def grid(r):
    m, p = pick(r, "bilinear", "nearest", "bicubic"), pick(
        r, "zeros", "border", "reflection")
    a = bool(r.randint(0, 1))
    if r.random() < 0.3:
        return ("F.grid_sample(x, F.affine_grid(y, (2, 3, 5, 6), %s), %r, %r, "
                "%s)" % (a, m, p, a), (2, 3, 4, 5), (2, 2, 3))
    if r.random() < 0.3 and m != "bicubic":
        return ("F.grid_sample(x, y, %r, %r, %s)" % (m, p, a),
                (1, 2, 3, 4, 5), (1, 2, 3, 4, 3))
    return "F.grid_sample(x, y, %r, %r, %s)" % (m, p, a), (
        2, 3, 4, 5), (2, 3, 6, 2)


@template(2)
def reduction(r):
    f = pick(r, "mean", "sum", "amax", "amin", "std", "var", "prod", "norm",
             "logsumexp", "argmax", "argmin", "any", "all", "median",
             "cumsum", "cumprod", "max", "min", "nanmean", "var_mean",
             "count_nonzero", "softmax", "aminmax", "nansum", "logcumsumexp",
             "cummax", "mode", "std_mean", "quantile")
    d = pick(r, 1, 2, -1, -2)
    k = bool(r.randint(0, 1))
    many = pick(r, (1, 2), (1, -1), (2,), d)
    how = {
        "mean": "torch.mean(x, %s, %s)" % (many, k),
        "sum": "torch.sum(x, %s, %s)" % (many, k),
        "amax": "torch.amax(x, %s, %s)" % (many, k),
        "amin": "torch.amin(x, %s, %s)" % (many, k),
        "std": "torch.std(x, %s, correction=%d, keepdim=%s)" % (
            many, r.randint(0, 2), k),
        "var": "torch.var(x, %s, correction=%d, keepdim=%s)" % (
            many, r.randint(0, 1), k),
        "std_mean": "torch.std_mean(x, %s, keepdim=%s)" % (many, k),
        "var_mean": "torch.var_mean(x, %s, keepdim=%s)" % (many, k),
        "norm": "torch.linalg.vector_norm(x, %s, %s, %s)" % (
            pick(r, 1, 2, 3, float("inf"), 0.5, 0).__repr__().replace(
                "inf", "float('inf')"), many, k),
        "logsumexp": "torch.logsumexp(x, %s, %s)" % (many, k),
        "any": "torch.any(x > 1, %d, %s)" % (d, k),
        "all": "torch.all(x > -1, %d, %s)" % (d, k),
        "nanmean": "torch.nanmean(x, %s, %s)" % (many, k),
        "nansum": "torch.nansum(x, %s, %s)" % (many, k),
        "count_nonzero": "torch.count_nonzero(x.relu(), %s)" % (many,),
        "aminmax": "torch.aminmax(x, dim=%d, keepdim=%s)" % (d, k),
        "quantile": "torch.quantile(x, %s, dim=%d, keepdim=%s)" % (
            pick(r, 0.5, 0.25, 0.9), d, k),
    }.get(f)
    if how is None:
        how = "torch.%s(x, %d%s)" % (f, d, "" if "cum" in f or f == "softmax"
                                     else ", %s" % k)
    return how, (2, 3, 4, 5)


@template(2)
def unary(r):
    f = ("abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc "
         "exp exp2 expm1 floor frac log log10 log1p log2 logit neg rad2deg "
         "reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt "
         "square tan tanh trunc isnan isinf isfinite nan_to_num positive "
         "relu lgamma digamma erfinv i0 special.entr special.log_ndtr "
         "special.ndtr special.xlog1py special.expit".split())
    f = r.choice(f)
    x = torch.rand(2, 3, 5) * 0.9 + 0.05
    if f == "acosh":
        x = x + 1
    if f.endswith("xlog1py"):
        return "torch.special.xlog1py(x, y)", x, torch.rand(2, 3, 5)
    if f in ("special.log_ndtr", "round", "sin", "cos", "floor", "trunc",
             "frac", "sign", "abs", "tanh", "exp", "neg", "ceil"):
        x = (x - 0.5) * 8
    return "torch.%s(x)" % f, x


@template(0)
def binary(r):
    f = r.choice(
        "x+y x-y x*y x/y x//y x%y x**2 2**x torch.pow(x.abs(),y) "
        "torch.maximum(x,y) torch.minimum(x,y) torch.atan2(x,y) "
        "torch.fmod(x,y) torch.remainder(x,y) torch.hypot(x,y) "
        "torch.copysign(x,y) torch.fmax(x,y) torch.fmin(x,y) "
        "torch.logaddexp(x,y) torch.logaddexp2(x,y) torch.ldexp(x,y) "
        "torch.nextafter(x,y) torch.heaviside(x,y) torch.xlogy(x.abs(),y.abs()) "
        "torch.float_power(x.abs(),y).float() torch.add(x,y,alpha=2.5) "
        "torch.sub(x,y,alpha=-1.5) torch.rsub(x,y) torch.lerp(x,y,0.3) "
        "torch.addcmul(x,y,y,value=0.3) torch.addcdiv(x,y,y.abs()+1,value=2) "
        "torch.where(x>y,x,y) torch.where(x>0,x,0.5) "
        "torch.div(x,y,rounding_mode='trunc') "
        "torch.div(x,y,rounding_mode='floor') torch.true_divide(x,y) "
        "torch.clamp(x,y-1,y+1) torch.clamp(x,max=0.3) torch.clamp(x,min=y) "
        "torch.isclose(x,y,0.5) torch.dist(x,y) torch.eq(x.round(),y.round()) "
        "(x>y)&(x<1) (x>y)|(x<0) (x>y)^(x<1) ~(x>y) torch.cdist(x,y) "
        "torch.cross(x[...,:3],y[...,:3],dim=-1) F.cosine_similarity(x,y,-1) "
        "F.pairwise_distance(x,y) F.mse_loss(x,y) F.l1_loss(x,y,reduction='none') "
        "F.smooth_l1_loss(x,y,reduction='sum') F.huber_loss(x,y) "
        "F.kl_div(x,y.softmax(-1),reduction='batchmean') "
        "F.binary_cross_entropy_with_logits(x,y.sigmoid())".split())
    s = size(r, r.randint(1, 3), 3, 5)
    b = [pick(r, 1, n) for n in s][r.randint(0, len(s) - 1):]
    if any(w in f for w in ("cdist", "cross", "loss", "kl_div", "entropy",
                            "similarity", "distance")):
        s = b = size(r, 2, 4, 5)
    return f, s, b


@template(0)
def integer(r):
    i = torch.randint(-9, 9, (2, 3, 4), dtype=pick(
        r, torch.int64, torch.int32))
    j = torch.randint(1, 5, (3, 4), dtype=i.dtype)
    return r.choice(
        "x+y x*y x//y x%y x/y x&y x|y x^y ~x x<<(y%3) x>>(y%3) "
        "torch.fmod(x,y) torch.div(x,y,rounding_mode='trunc') x.float()*1.5 "
        "torch.clamp(x,-3,3) torch.where(x>y,x,y) (x>0).float() x.abs() "
        "torch.maximum(x,y) x.sum(1) x.float().mean(0) x.to(torch.int32)+1 "
        "torch.bitwise_not(x) torch.gcd(x,y) x.sign() x.cumsum(-1) "
        "F.one_hot((x.long()%4).abs(),5) x.prod(-1) x**2 x.double().float() "
        "x.half().float() x.bool() x.argmax(-1) x.max(1)[0] "
        "torch.sort(x,-1)[0] torch.bincount(y.flatten(),minlength=6) "
        "torch.floor_divide(x,y) x.to(torch.uint8).float() x.eq(y) x.square() "
        "torch.remainder(x,y) torch.cumprod(y,0)".split()), i, j


@template(0)
def shapes(r):
    return r.choice([
        "x.flatten(1)", "x.flatten(1,2)", "x.unflatten(1,(2,-1))",
        "x.permute(0,3,1,2)", "x.transpose(1,-1)", "x.reshape(2,-1,5)",
        "x.view(x.size(0),-1)", "x.squeeze(1)", "x[:,:1].squeeze()",
        "x.unsqueeze(-2)", "x.movedim(1,-1)", "x.swapaxes(0,1)",
        "torch.cat([x,x*2,x[:,:1]],1)", "torch.stack([x,x+1],-1)",
        "torch.stack((x,x),0).sum(0)", "x.chunk(3,1)", "x.split([1,3],1)",
        "x.split(2,2)", "x.tensor_split(3,-1)", "torch.hsplit(x,2)",
        "x.unbind(2)", "x.expand(2,4,6,5)[:, :2]", "x.repeat(1,2,1,3)",
        "x.tile(2,1,1)", "x.repeat_interleave(2,1)", "x.roll((1,-2),(1,3))",
        "x.roll(3)", "x.flip(1,3)", "x.rot90(1,(2,3))", "x.narrow(2,1,3)",
        "x.select(1,-1)", "x[:,::2,1:-1]", "x[...,-1]", "x[:,[2,0,1]]",
        "x[:,:,[0,2],[1,3]]", "x[:,None,...,::3]", "x[:, :, x.shape[2]//2:]",
        "x.tril(1)", "x.triu(-1)", "x.diagonal(0,2,3)", "torch.diag_embed(x)",
        "x.diagonal(offset=1,dim1=-2,dim2=-1).sum(-1)",
        "x.unfold(2,3,2)", "x.as_strided((2,3),(5,2))", "x.T if x.ndim==2 else x.mT",
        "torch.block_diag(x[0,0],x[1,1])", "torch.atleast_3d(x[0,0,0])",
        "torch.broadcast_to(x[:, :1],(2,3,6,5))", "torch.meshgrid(x[0,0,0],x[0,0,:,0],indexing='ij')",
        "torch.cartesian_prod(x[0,0,0],x[0,1,0])", "torch.combinations(x[0,0,0])",
        "torch.tensordot(x,x,([2,3],[2,3]))", "torch.einsum('bchw,bdhw->bcd',x,x)",
        "torch.einsum('bchw->whcb',x)", "torch.einsum('bchw,bchw->b',x,x)",
        "torch.einsum('...hw,...wk->...hk',x,x.mT)", "torch.kron(x[0,0],x[0,1])",
        "torch.outer(x[0,0,0],x[0,1,0])", "x@x.mT", "torch.bmm(x[:,0],x[:,1].mT)",
        "torch.baddbmm(x[:,0]@x[:,0].mT,x[:,0],x[:,1].mT,beta=0.5,alpha=2)",
        "torch.addmm(x[0,0],x[0,1],torch.eye(5))", "torch.chain_matmul(x[0,0],x[0,1].T,x[0,2])",
        "torch.dot(x[0,0,0],x[0,1,0])", "torch.mv(x[0,0],x[0,1,0])", "torch.trace(x[0,0])",
        "x.new_zeros(2,3)+x[:, :,0,0]", "torch.ones_like(x)*3", "torch.full_like(x,2.5)+x",
        "torch.arange(x.size(-1))*x", "torch.linspace(0,1,x.shape[-1])+x",
        "torch.eye(5)+x[...,:5,:5]", "x.masked_fill(x>0,-1.)", "x.type_as(x.half()).float()",
        "x.contiguous(memory_format=torch.channels_last)*2", "x.clone().add_(1).mul_(x)",
        "torch.vander(x[0,0,0],3)", "x.ravel()", "torch.dstack([x[0],x[1]])",
        "torch.hstack([x,x])", "torch.vstack([x,x])", "torch.column_stack([x[0,0],x[0,1]])",
        "torch.fliplr(x)", "torch.cov(x[0,0])", "torch.corrcoef(x[0,0])",
        "torch.renorm(x,2,1,0.5)", "F.normalize(x,dim=1)", "F.normalize(x,p=1,dim=(2,3))",
        "torch.trapezoid(x,dim=1)", "torch.diff(x,dim=2)", "torch.gradient(x[0,0],dim=0)[0]",
    ]), (2, 4 if r.random() < 0.3 else 4, 6, 5)


@template(0)
def index(r):
    i = torch.randint(0, 4, (2, 4, 6))
    return r.choice([
        "torch.gather(x,1,y)", "torch.take_along_dim(x,y,1)",
        "torch.scatter(x,1,y,torch.ones(2,4,6))", "torch.scatter(x,1,y,2.)",
        "x.scatter_add(1,y,x)", "x.scatter_reduce(1,y,x,'amax')",
        "x.scatter_reduce(1,y,x,'mean',include_self=False)",
        "x.index_select(2,y[0,0])", "x[:, y[0,0]]", "x[y[0,0]%2, y[0,1]]",
        "x.index_add(2,y[0,0],x)", "x.index_fill(2,y[0,0,:2],1.)",
        "x.index_copy(2,torch.tensor([0,2]),x[:,:,:2])", "torch.take(x,y)",
        "torch.topk(x,3,1)", "torch.topk(x,2,-1,largest=False)", "torch.sort(x,1)",
        "torch.sort(x,-1,descending=True,stable=True)", "torch.argsort(x,1)", "x.kthvalue(2,1)",
        "torch.masked_select(x,x>0).sum()", "torch.where(y>1,x,-x)",
        "torch.searchsorted(x[0,0].sort()[0],x[1,0])", "torch.bucketize(x,torch.tensor([-1.,0.,1.]))",
        "x.index_put((y[0,0]%2,y[0,1]),torch.ones(6))", "x.index_put((y[0,0]%2,),x[:1],accumulate=True)",
        "F.one_hot(y,4)", "F.embedding(y,torch.ones(4,3))", "x.masked_scatter(x>0,x)",
        "torch.isin(y,torch.tensor([1,3]))", "torch.histc(x,5)", "torch.unique(y)[:1]",
        "torch.nonzero(y[0,0]>10)", "x.slice_scatter(x[:,:1],1,2,3)", "x.select_scatter(x[:,0],1,2)",
        "x.diagonal_scatter(torch.ones(2,4),0,1,2)", "torch.unravel_index(y,(2,3))",
        "torch.tril_indices(4,4).sum(0)+y[0,0,:1]", "torch.max(x,1)[1]", "x.flatten().topk(5)[0]",
    ]), (2, 4, 6), i


@template(0)
def loss(r):
    t = torch.randint(0, 4, (3,))
    return r.choice([
        "F.cross_entropy(x,y)", "F.cross_entropy(x,y,label_smoothing=0.1)",
        "F.cross_entropy(x,y,reduction='none')", "F.nll_loss(x.log_softmax(1),y)",
        "F.nll_loss(x.log_softmax(1),y,ignore_index=1)", "F.multi_margin_loss(x,y)",
        "F.cross_entropy(x,y,torch.tensor([1.,2.,3.,4.]))",
        "F.multilabel_margin_loss(x,y[:,None].expand(3,4))",
        "F.poisson_nll_loss(x,y[:,None].float())", "F.soft_margin_loss(x,y[:,None].float()*2-1)",
    ]), (3, 4), t


class Net(nn.Module):
    """A chain of drawn blocks on a picture."""

    def __init__(self, r):
        super().__init__()
        c, blocks = 3, []
        for _ in range(r.randint(2, 5)):
            o = pick(r, 4, 6, 8)
            blocks.append(pick(
                r, nn.Sequential(nn.Conv2d(c, o, pick(r, 1, 3, 5), pick(r, 1, 2),
                                           pick(r, 0, 1, 2)), nn.BatchNorm2d(o),
                                 pick(r, nn.ReLU(), nn.SiLU(), nn.PReLU(o),
                                      nn.Hardswish(), nn.Mish())),
                nn.Sequential(nn.ConvTranspose2d(c, o, pick(r, 2, 3, 4), 2, 1),
                              nn.InstanceNorm2d(o, affine=True), nn.ELU()),
                nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, o, 3),
                              nn.GroupNorm(2, o), nn.GELU()),
                nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True),
                              nn.Conv2d(c, o, 1, bias=False)),
                nn.Sequential(nn.Upsample(scale_factor=2, mode=pick(
                    r, "nearest", "bilinear", "bicubic")), nn.Conv2d(c, o, 3))))
            c = o
        self.blocks = nn.ModuleList(blocks)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1),
                                  nn.Sigmoid())
        self.kind = pick(r, "map", "class", "tokens", "skip")
        self.fc = nn.Linear(c, 5)

    def forward(self, x):
        y = x
        for b in self.blocks:
            y = b(y)
        y = y * self.gate(y)
        if self.kind == "class":
            return self.fc(y.mean((2, 3)))
        if self.kind == "tokens":
            return self.fc(y.flatten(2).transpose(1, 2)).softmax(-1)
        if self.kind == "skip":
            y = F.interpolate(y, size=x.shape[-2:], mode="bilinear",
                              align_corners=False)
            return torch.cat([x, y], 1), y.amax(1, keepdim=True)
        return y


@template(3)
def net(r):
    return Net(r), (r.randint(1, 2), 3, *size(r, 2, 12, 20))


@template(0)
def norms_of_weights(r):
    from torch.nn.utils import parametrizations, weight_norm
    m = pick(r, nn.Conv2d(3, 4, 3), nn.Linear(5, 4))
    x = (2, 3, 6, 6) if isinstance(m, nn.Conv2d) else (3, 5)
    return pick(r, parametrizations.weight_norm,
                parametrizations.spectral_norm, weight_norm)(m), x


@template(0)
def vision(r):
    from torchvision import ops
    boxes = torch.tensor([[0, 1., 1., 6., 5.], [1, 0., 2., 4., 7.],
                          [0, -1., 3., 3., 9.5]])
    m = pick(r, ops.RoIAlign(tup(r, 2, 2, 3), pick(r, 1.0, 0.5),
                             pick(r, 1, 2), bool(r.randint(0, 1))),
             ops.RoIPool(2, 1.0), ops.PSRoIAlign(2, 1.0, 2))
    if r.random() < 0.3:
        return (ops.DeformConv2d(4, 2, 3, pick(r, 1, 2), 1), (2, 4, 6, 6),
                (2, 18, 6, 6))
    if r.random() < 0.3:
        return pick(r, ops.SqueezeExcitation(4, 2), ops.FrozenBatchNorm2d(4),
                    ops.Conv2dNormActivation(4, 3, 3), ops.Permute([0, 2, 3, 1]),
                    ops.DropBlock2d(0.1, 3)), (2, 4, 6, 7)
    return m, (2, 4, 8, 9), boxes
