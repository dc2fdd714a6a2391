# SPDX-License-Identifier: Apache-2.0
"""Drawn statements of PyTorch (torch_modules.py): each function of KINDS takes
the text of a module that grows and a value of it, and returns an expression.

A statement is run as soon as it is drawn, at two sizes; one that PyTorch refuses
at either is left out.  So nothing here keeps track of shapes."""

ACTS = ("relu", "silu", "gelu", "sigmoid", "tanh", "elu", "leaky_relu",
        "hardswish", "hardsigmoid", "softplus", "mish", "relu6", "selu",
        "softsign", "celu", "logsigmoid", "hardtanh")
UNARY = ("abs", "neg", "exp", "square", "sin", "cos", "atan", "erf", "sign",
         "floor", "ceil", "round", "trunc", "rsqrt", "reciprocal", "sqrt",
         "log1p", "expm1", "isnan", "frac")


def size(d, low=1, high=3):
    return d.choice((d.randint(low, high), (d.randint(low, high),
                                            d.randint(low, high))))


def conv(g, v):
    d, c = g.draw, g.shape(v)[1]
    n = g.shape(v) and len(g.shape(v)) - 2
    if n not in (1, 2, 3):
        return None
    groups = d.choice([k for k in (1, 1, 1, 2, 3, 4, c) if c % k == 0])
    out = groups * d.randint(1, max(1, 12 // groups))
    k = d.randint(1, 4) if n != 2 else size(d, 1, 4)
    more = ""
    if d.random() < 0.3:
        more += ", stride=%s" % (size(d, 1, 3) if n == 2 else d.randint(1, 2),)
        more += ", padding=%d" % d.randint(0, 2)
    elif d.random() < 0.4:
        more += ", padding='same'"
    else:
        more += ", padding=%d" % d.randint(0, 2)
    if d.random() < 0.2:
        more += ", dilation=%d" % d.randint(1, 2)
    if d.random() < 0.2:
        more += ", padding_mode='%s'" % d.choice(
            ("reflect", "replicate", "circular"))
    return "%s(%s)" % (g.module("nn.Conv%dd(%d, %d, %s, groups=%d, bias=%s%s)" % (
        n, c, out, k, groups, d.random() < 0.6, more)), v)


def deconv(g, v):
    d, c = g.draw, g.shape(v)[1]
    n = len(g.shape(v)) - 2
    groups = d.choice([k for k in (1, 1, 2, 3, c) if c % k == 0])
    stride = d.randint(1, 3)
    return "%s(%s)" % (g.module(
        "nn.ConvTranspose%dd(%d, %d, %d, %d, %d, %d, groups=%d, bias=%s, "
        "dilation=%d)" % (n, c, groups * d.randint(1, 4), d.randint(1, 4),
                          stride, d.randint(0, 1), d.randint(0, stride - 1),
                          groups, d.random() < 0.5, d.choice((1, 1, 2)))), v)


def again(g, v):
    """A module that was used already."""
    return "%s(%s)" % (g.draw.choice(g.modules), v) if g.modules else None


def tied(g, v):
    """The weights of another layer, as they are or turned into others."""
    m = g.draw.choice(g.modules) if g.modules else None
    w = g.draw.choice(("%s.weight", "%s.weight * 0.5", "%s.weight.flip(0)",
                       "%s.weight.transpose(0, 1)", "%s.weight.abs()")) % m
    return m and g.draw.choice((
        "F.conv2d(%s, %s, padding=1)", "F.conv_transpose2d(%s, %s)",
        "F.linear(%s, %s)", "F.linear(%s.mean((2, 3)), %s.flatten(1))",
        "F.conv1d(%s, %s)")) % (v, w)


def norm(g, v):
    d, s = g.draw, g.shape(v)
    n = len(s) - 2
    m = d.choice((
        "nn.BatchNorm%dd(%d, affine=%s)" % (n, s[1], d.random() < 0.8),
        "nn.InstanceNorm%dd(%d, affine=%s, track_running_stats=%s)" % (
            n, s[1], d.random() < 0.5, d.random() < 0.3),
        "nn.GroupNorm(%d, %d, affine=%s)" % (d.choice([
            k for k in (1, 2, 3, s[1]) if s[1] % k == 0]), s[1],
            d.random() < 0.8),
        "nn.LayerNorm(%d)" % s[-1], "nn.LayerNorm(%s)" % list(s[-2:]),
        "nn.LocalResponseNorm(%d)" % d.randint(2, 5)))
    return "%s(%s)" % (g.module(m), v)


def act(g, v):
    d = g.draw
    if d.random() < 0.1:
        return "%s(%s)" % (g.module("nn.PReLU(%d)" % d.choice(
            (1, g.shape(v)[1] if len(g.shape(v)) > 1 else 1))), v)
    if d.random() < 0.2:
        return "%s.clamp(%s)" % (v, d.choice(("0.0, 6.0", "min=-0.3",
                                             "max=0.4", "-0.5, 0.5")))
    return "F.%s(%s)" % (d.choice(ACTS), v)


def pool(g, v):
    d = g.draw
    n, k = len(g.shape(v)) - 2, d.randint(1, 3)
    return d.choice((
        "F.max_pool%dd(%s, %d, %d, %d, dilation=%d, ceil_mode=%s)" % (
            n, v, k, d.randint(1, 3), d.randint(0, k // 2), d.choice((1, 1, 2)),
            d.random() < 0.4),
        "F.avg_pool%dd(%s, %d, %d, %d, ceil_mode=%s, count_include_pad=%s)" % (
            n, v, k, d.randint(1, 3), d.randint(0, k // 2), d.random() < 0.4,
            d.random() < 0.5),
        "F.adaptive_avg_pool%dd(%s, %d)" % (n, v, d.randint(1, 3)),
        "F.adaptive_max_pool%dd(%s, %d)" % (n, v, d.randint(1, 2)),
        "F.avg_pool2d(%s, 2, divisor_override=3)" % v,
        "F.avg_pool%dd(%s, %s.shape[-1])" % (n, v, v),
        "F.lp_pool2d(%s, 2.0, 2)" % v))


def resize(g, v):
    d = g.draw
    n = len(g.shape(v)) - 2
    mode = d.choice(("nearest", "bilinear" if n == 2 else "linear" if n == 1
                     else "trilinear", "bicubic", "nearest-exact", "area"))
    more = ", mode='%s'" % mode
    if mode in ("bilinear", "bicubic", "linear", "trilinear"):
        more += ", align_corners=%s" % (d.random() < 0.4)
    # PyTorch (2.9) repeats the first row where antialias meets a width of 1.
    if mode in ("bilinear", "bicubic") and g.shape(v)[-1] > 1 and \
            d.random() < 0.15:
        more += ", antialias=True"
    u = g.other(v)
    to = d.choice((
        "scale_factor=%s" % d.choice((2.0, 0.5, 1.5, 3.0)),
        "scale_factor=(%s)" % ", ".join(d.choice(("2.0", "1.0", "0.5"))
                                        for _ in range(n)),
        "size=%s.shape[2:]" % u, "size=%s" % ([d.randint(2, 9)] * n),
        "size=[%s.shape[2] * 2, %s.shape[3] + 1]" % (v, v),
        "size=[%s.shape[2] // 2, %s.shape[3] * 2]" % (u, u),
        "scale_factor=2.0, recompute_scale_factor=True"))
    return "F.interpolate(%s, %s%s)" % (v, to, more)


def pad(g, v):
    d = g.draw
    return "F.pad(%s, %s, mode='%s')" % (v, tuple(
        d.randint(-1, 2) for _ in range(2 * d.randint(1, 2))), d.choice(
            ("reflect", "replicate", "circular"))) if d.random() < 0.6 else \
        d.choice(("F.pad(%s, (1, 2, 0, 1), value=0.5)" % v,
                  "F.pad(%s, (0, 0, 0, 0, 1, 1))" % v,
                  "F.pad(%s, (0, (4 - %s.shape[-1] %% 4) %% 4, "
                  "0, (4 - %s.shape[-2] %% 4) %% 4))" % (v, v, v),
                  "F.pad(%s, (0, %s.shape[-1] %% 2))" % (v, v)))


def join(g, v):
    d, u = g.draw, g.other(v)
    return d.choice((
        "%s + %s", "%s - %s", "%s * %s", "%s / (1.0 + %s.abs())",
        "torch.maximum(%s, %s)", "torch.minimum(%s, %s)",
        "torch.cat([%s, %s], 1)", "torch.cat([%s, %s], -1)",
        "torch.stack([%s, %s], 1).flatten(1, 2)", "%s + 0.5 * %s",
        "torch.where(%s > 0.1, {0}, %s)".format(v), "torch.matmul(%s, %s)",
        "torch.matmul(%s, %s.transpose(-1, -2))", "torch.add(%s, %s, alpha=2)",
        "F.relu(%s + %s)", "torch.lerp(%s, %s, 0.3)", "%s * torch.sigmoid(%s)",
        "%s * %s.mean((2, 3), keepdim=True)", "%s + %s.mean()",
        "%s + F.adaptive_avg_pool2d(%s, 1)", "torch.atan2(%s, %s)",
        "torch.addcmul({0}, %s, %s)".format(v), "%s[:, :1] * %s",
        "torch.cat([%s, %s, {0}], 0)".format(v))) % (v, u)


def crop(g, v):
    """One value brought to the size of another."""
    u = g.other(v)
    return g.draw.choice((
        "{v}[..., :{u}.shape[-1]]", "{v}[:, :, :{u}.shape[2], :{u}.shape[3]]",
        "{v}[:, :, 1:, :-1]", "{v}[..., ::2]", "{v}[:, :, 1::2, ::3]",
        "{v}[..., {v}.shape[-1] // 4:{v}.shape[-1] // 4 + "
        "{v}.shape[-1] // 2]",
        "{v}[:, -2:]", "{v}[:, 0]", "{v}[:, :, 0]", "{v}[:, None]",
        "{v}[..., -1:]", "{v}[:, [1, 0, 1]]", "{v}[:, :, 100:]",
        "{v}.narrow(1, 1, {v}.shape[1] - 1)", "{v}.select(-1, -1)",
        "{v}[{v}.shape[0] - 1:]", "{v}[:, :, {v}.shape[2] // 2]",
        "{v}.index_select(1, torch.tensor([0, 0, 1]))",
        "{v}.narrow(-1, 0, min({v}.shape[-1], {u}.shape[-1]))")).format(
            u=u, v=v)


def move(g, v):
    d, s = g.draw, g.shape(v)
    axes = list(range(len(s)))
    d.shuffle(axes)
    c = s[1] if len(s) > 1 else 1
    k = d.choice([k for k in (1, 2, 3, 4, c) if c % k == 0])
    return d.choice((
        "{v}.flatten(1)", "{v}.flatten(2)", "{v}.flatten(2).transpose(1, 2)",
        "{v}.permute(%s)" % ", ".join(map(str, axes)),
        "{v}.transpose(1, -1)", "{v}.transpose(1, -1).contiguous()",
        "{v}.view({v}.shape[0], -1)", "{v}.reshape({v}.size(0), {v}.size(1), -1)",
        "{v}.reshape({v}.shape[0], {k}, {c}, {v}.shape[2], {v}.shape[3])"
        ".transpose(1, 2).reshape({v}.shape)",
        "{v}.reshape({v}.shape[0] * {k}, {c}, {v}.shape[2], {v}.shape[3])",
        "{v}.reshape(-1, {v}.shape[-1])", "{v}.unsqueeze(1)", "{v}.squeeze(2)",
        "{v}.squeeze(1)", "{v}.unflatten(1, ({k}, {c}))",
        "F.pixel_shuffle({v}, 2)", "F.pixel_unshuffle({v}, 2)",
        "F.channel_shuffle({v}, {k})", "torch.flip({v}, [-1])",
        "torch.roll({v}, 1, -1)", "torch.roll({v}, (1, -2), (2, 3))",
        "{v}.repeat(1, 2, 1, 1)", "{v}.repeat_interleave(2, 1)",
        "torch.tile({v}, (2,))", "torch.rot90({v}, 1, [2, 3])",
        "F.unfold({v}, 2, padding=1)", "{v}.unfold(-1, 2, 1)",
        "F.fold(F.unfold({v}, 2, stride=2), {v}.shape[2:], 2, stride=2)",
        "{v}.mT", "torch.movedim({v}, 1, -1)", "{v}.swapaxes(0, 1)",
        "{v}[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2)",
        "{v}.expand(2, -1, -1, -1, -1)[1]",
        "torch.cat({v}.chunk(2, 1)[::-1], 1)" if d.random() < 0.5 else
        "torch.cat([t * 2 for t in {v}.split(1, 1)], 1)")).format(
            v=v, k=k, c=c // k)


def reduce(g, v):
    d = g.draw
    axes = d.choice(("(2, 3)", "1", "-1", "(1, 2)", "0", "(0, 2, 3)", "2"))
    keep = d.choice((", keepdim=True", ""))
    return d.choice((
        "{v}.mean(%s%s)", "{v}.sum(%s%s)", "{v}.amax(%s%s)", "{v}.amin(%s%s)",
        "{v}.std(%s%s)", "{v}.var(%s, unbiased=False%s)",
        "{v}.norm(dim=%s%s)", "torch.logsumexp({v}, %s%s)",
        "torch.linalg.vector_norm({v}, 1, %s%s)")).format(v=v) % (
            axes, keep) if d.random() < 0.7 else d.choice((
                "{v}.softmax(1)", "{v}.softmax(-1)", "F.log_softmax({v}, 1)",
                "{v}.mean()", "{v}.max()", "{v}.sum()", "{v}.cumsum(1)",
                "{v}.cumsum(-1)", "F.normalize({v}, dim=1)",
                "{v} / {v}.norm(dim=1, keepdim=True).clamp(min=1e-3)",
                "{v}.argmax(1)", "{v}.max(-1)[0]", "{v}.topk(2, 1)[0]",
                "{v}.sort(-1)[0]", "{v}.prod(1)", "{v}.softmax(1).argmax(-1)",
                "{v}.numel() + {v}", "{v}.any(1)", "(-{v}).softmin(1)",
                "{v}.median(1)[0]")).format(v=v)


def arithmetic(g, v):
    d = g.draw
    return d.choice((
        "{v}.%s()" % d.choice(UNARY), "{v} * {v}.shape[1] ** -0.5",
        "{v} / {v}.shape[-1]", "{v} * 0.7 + 0.1", "1.0 - {v}", "2.0 ** {v}",
        "{v} ** 2", "{v}.abs() ** 0.5", "{v}.pow(3)", "{v} % 0.7",
        "torch.remainder({v}, -0.4)", "torch.fmod({v}, 0.4)",
        "{v} // 0.3", "({v} > 0).float()", "({v} > 0) & ({v} < 1)",
        "({v} * 3).to(torch.int64)", "({v} * 3).int() // 2",
        "({v} * 5).long() % 3", "{v}.masked_fill({v} > 0.5, -1.0)",
        "{v}.double() * 2", "{v}.half().float()", "{v}.to(torch.bfloat16).float()",
        "{v} + torch.arange({v}.shape[-1])",
        "{v} * torch.linspace(-1, 1, {v}.shape[-1])",
        "{v} + torch.ones({v}.shape[0], 1, 1, 1)", "torch.ones_like({v}) - {v}",
        "{v} + torch.full([1], 0.25)", "{v} + {v}.new_zeros({v}.shape)",
        "torch.where({v} > 0, {v}, torch.zeros_like({v}))",
        "{v}.tril()", "torch.triu({v}, 1)", "torch.nan_to_num({v})",
        "{v}.relu().sqrt()", "~({v} > 0)", "{v}.eq({v}.round())",
        "torch.threshold({v}, 0.1, 0.0)", "{v} * (1.0 if {v}.shape[1] > 3 else "
        "0.5)", "F.hardshrink({v})", "F.softshrink({v})", "F.glu({v}, 1)",
        "F.tanhshrink({v})", "{v}.clone()", "{v}.detach()",
        "F.dropout({v}, 0.3, training=self.training)",
        "F.dropout2d({v}, 0.3, training=self.training)",
        "{v} + self.%s" % g.parameter(g.shape(v)[-1:]),
        "{v} * self.%s" % g.parameter((g.shape(v)[1], 1, 1) if len(
            g.shape(v)) > 1 else (1,)))).format(v=v)


def grid(g, v):
    mode = "mode='%s', padding_mode='%s', align_corners=%s" % (
        g.draw.choice(("bilinear", "nearest", "bicubic")),
        g.draw.choice(("zeros", "border", "reflection")),
        g.draw.random() < 0.5)
    u = g.other(v)
    return g.draw.choice((
        "F.grid_sample({v}, F.affine_grid(self.%s.expand({v}.shape[0], 2, 3), "
        "{v}.shape, align_corners=False), %s)" % (g.parameter((1, 2, 3)), mode),
        "F.grid_sample({v}, torch.tanh({u}[:, :2]).permute(0, 2, 3, 1), %s)"
        % mode,
        "F.grid_sample({v}, torch.stack(torch.meshgrid(torch.linspace(-1, 1, "
        "{v}.shape[3]), torch.linspace(-1, 1, {v}.shape[2]), indexing='xy'), "
        "-1).unsqueeze(0).expand({v}.shape[0], -1, -1, -1), %s)" % mode
    )).format(v=v, u=u)


def tokens(g, v):
    """Sequences: attention, recurrent layers, encoders."""
    d, s = g.draw, g.shape(v)
    if len(s) == 4:
        w, t = s[1], "%s.flatten(2).transpose(1, 2)" % v
    elif len(s) == 3:
        w, t = s[2], v
    else:
        return None
    heads = d.choice([k for k in (1, 2, 3, 4) if w % k == 0])
    kind = d.choice(("lstm", "gru", "rnn", "mha", "linear", "sdpa", "encoder",
                     "softmax"))
    if kind in ("lstm", "gru", "rnn"):
        m = g.module("nn.%s(%d, %d, num_layers=%d, batch_first=True, "
                     "bidirectional=%s, bias=%s)" % (
                         kind.upper(), w, d.randint(2, 5), d.randint(1, 2),
                         d.random() < 0.4, d.random() < 0.8))
        return "%s(%s)[0]" % (m, t) if d.random() < 0.7 else \
            "%s(%s)[1]%s" % (m, t, "[0]" if kind == "lstm" else "")
    if kind == "mha":
        m = g.module("nn.MultiheadAttention(%d, %d, batch_first=True)" % (
            w, heads))
        return "%s(%s, %s, %s, need_weights=%s)[0]" % (
            m, t, t, t, d.random() < 0.5)
    if kind == "linear":
        return "%s(%s)" % (g.module("nn.Linear(%d, %d, bias=%s)" % (
            w, d.randint(2, 12), d.random() < 0.6)), t)
    if kind == "sdpa":
        return "F.scaled_dot_product_attention(%s, %s, %s, is_causal=%s)" % (
            t, t, t, d.random() < 0.5)
    if kind == "encoder":
        return "%s(%s)" % (g.module(
            "nn.TransformerEncoderLayer(%d, %d, %d, 0.0, '%s', "
            "batch_first=True, norm_first=%s)" % (
                w, heads, 2 * w, d.choice(("relu", "gelu")),
                d.random() < 0.5)), t)
    return "torch.softmax(torch.bmm(%s, %s.transpose(1, 2)) * %s.shape[-1] ** " \
        "-0.5, -1) @ %s" % (t, t, t, t)


def whole(g, v):
    """What integers are taken for."""
    d = g.draw
    if g.integer(v):
        return d.choice((
            "%s(%s)" % (g.module("nn.Embedding(20, %d)" % d.randint(2, 6)),
                        "%s.abs() %% 20" % v),
            "%s.float() * 0.1" % v, "%s + 1" % v, "%s // 2" % v, "%s %% 3" % v,
            "F.one_hot(%s.long().abs() %% 5, 5).float()" % v,
            "(%s == 1).float()" % v, "%s.clamp(0, 3)" % v, "-%s" % v,
            "%s.unsqueeze(-1) == torch.arange(4)" % v, "%s.bool()" % v))
    return d.choice((
        "F.one_hot(%s.argmax(1), %d).float()" % (v, g.shape(v)[1] if len(
            g.shape(v)) > 1 else 3),
        "torch.gather(%s, 1, %s.argsort(1)[:, :1])" % (v, v),
        "%s[:, :0]" % v, "torch.cat([%s[:, :0], %s], 1)" % (v, v),
        "torch.bucketize(%s, torch.tensor([-0.5, 0.0, 0.7]))" % v,
        "torch.einsum('nchw,nkhw->nck', %s, %s)" % (v, v),
        "torch.einsum('b...c,cd->b...d', %s, self.%s)" % (
            v, g.parameter((g.shape(v)[-1], 3))),
        "%s.scatter(1, torch.zeros_like(%s[:, :1]).long(), 0.5)" % (v, v),
        "%s.shape[0] * torch.ones(1)" % v,
        "torch.tensor(%s.shape[1]).float()" % v, "self.%s" % g.parameter(
            (d.randint(1, 3),)),
        "torch.cdist(%s, %s)" % (v, g.other(v)), "F.pairwise_distance(%s, %s)" % (v, v),
        "F.cosine_similarity(%s, %s, dim=1)" % (v, g.other(v))))


KINDS = ((conv, 14), (deconv, 4), (again, 6), (tied, 3), (norm, 7), (act, 8),
         (pool, 6), (resize, 6), (pad, 3), (join, 16), (crop, 6), (move, 8),
         (reduce, 6), (arithmetic, 8), (grid, 2), (tokens, 5), (whole, 4))
