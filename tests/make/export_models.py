#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small programs of torch.export that use most operators, with their outputs.

    export_models.py FOLDER

Writes NAME.pt2 (stack traces and sample inputs left out) and NAME.npz with
input0, ... and output0, ... for each network below; those in tests/data/torch
were made so with PyTorch 2.9.1 (functions and cells: 2.15.0).  tests/unit/weights/torch/export reads them.
"""
import io
import json
import os
import sys
import zipfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Pictures(nn.Module):
    """Convolutions, norms, pools, other sizes; writes in place."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.n = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 8, 3, padding="same", groups=4)
        self.c = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.g = nn.GroupNorm(2, 4)
        self.i = nn.InstanceNorm2d(4, affine=True)
        self.p = nn.PReLU(4)
        self.f = nn.Linear(4 * 9 + 4, 5)

    def forward(self, x):
        # Weights that are standardised.
        w = F.batch_norm(self.a.weight.reshape(1, 8, -1), None, None,
                         training=True, eps=1e-4).reshape_as(self.a.weight)
        x = x + F.conv2d(x, w[:3], padding=1)
        x = F.relu(self.n(self.a(x)), inplace=True)
        y = F.max_pool2d(x, 3, 1, 1) + F.avg_pool2d(x, 3, 1, 1,
                                                    count_include_pad=False)
        y = F.silu(self.b(y)) + F.hardswish(x) + F.hardsigmoid(x)
        y += F.gelu(x) + F.gelu(x, approximate="tanh") + F.mish(x)
        y = self.p(self.i(self.g(self.c(y))))
        y = y + F.interpolate(y[:, :, ::2, ::2], scale_factor=2,
                              mode="bilinear", align_corners=False)
        y = y + F.interpolate(y[:, :, :6], size=y.shape[2:], mode="nearest")
        y = F.pad(y, (1, 1, 0, 2), mode="reflect")[:, :, 2:, 1:-1]
        y = F.leaky_relu(y, 0.2) + F.elu(y) + F.softplus(y) + F.relu6(y)
        z = F.pixel_unshuffle(F.pixel_shuffle(y, 2), 2)
        top, at = F.max_pool2d(z, 3, 2, 1, return_indices=True)
        z = z + F.max_unpool2d(top, at, 3, 2, 1, output_size=z.shape[2:])
        # 9 is no divisor: windows of several sizes
        w = F.adaptive_avg_pool2d(z, 3).flatten(1)
        v = F.adaptive_max_pool2d(z, 1)[:, :, 0, 0]
        return self.f(torch.cat([w, v], 1)).log_softmax(-1)


class Rows(nn.Module):
    """Attention, choices, masks; a table is written through its parts."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 24)
        self.n = nn.LayerNorm(8)
        self.o = nn.Linear(8, 8, bias=False)
        self.register_buffer("place", torch.tensor([2, 0, 1, 3, 3]))
        self.table = nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.q(self.n(x)).reshape(b, n, 3, 2, 4).permute(
            2, 0, 3, 1, 4).unbind(0)
        mask = torch.zeros(n, n)
        mask[1:, :2] = -2.0
        mask[0] = 1.0
        mask = mask.masked_fill(mask == 1, 0.5)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.o(y.transpose(1, 2).reshape(b, n, c)) + x
        y = y + self.table[self.place] + self.table[self.place, 1:2]
        y = torch.where(y > 0, y, y.abs() * 0.5) - torch.minimum(y, y * 2)
        z, at = y.topk(3, dim=1)
        y = y.roll((1, -2), (1, 2)) + y.flip(2) / 3 + y.cumsum(1) % 1.5
        u, s = torch.var_mean(y, 2, keepdim=True)
        y = (y - s) * torch.rsqrt(u + 1e-5)
        y = torch.cat(y.split([3, 2], 1)[::-1] + y.chunk(2, 2)[0].chunk(
            5, 1)[:0], 1) if y.shape[1] == 5 else y
        y = y.clamp(-1, 0.75) + torch.einsum("bnc,dc->bnd", y, self.table)[
            :, :, :1].expand(-1, -1, 8)
        y = y + torch.stack([y.amax(-1), y.argmax(-1).float()], 2).repeat(
            1, 1, 4)
        y = torch.linalg.vector_norm(y, dim=-1) + y.tril()[:, :, 0]
        return y + y.float().mean(1, keepdim=True), z + at


class Sequences(nn.Module):
    """Recurrent layers, norms of weights, grids, choices, attention."""

    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(6, 3, 2, batch_first=True, bidirectional=True)
        self.g = nn.GRU(6, 6, batch_first=True)
        self.r = nn.RNN(6, 6, nonlinearity="relu", bias=False,
                        batch_first=True)
        self.w = nn.utils.weight_norm(nn.Linear(6, 6))
        self.m = nn.MultiheadAttention(6, 2, batch_first=True)
        self.t = nn.Linear(30, 6)

    def forward(self, x):
        y, (h, c) = self.l(x)
        y = self.w(y + self.g(x)[0] + self.r(x)[0])
        y = y + self.m(x, x, x, need_weights=False)[0]
        q = y.view(y.shape[0], 5, 2, 3).transpose(1, 2)
        y = y + F.scaled_dot_product_attention(
            q, q * 2, q, is_causal=True).transpose(1, 2).flatten(2)
        a, b, d = torch.tensor_split(y, 3, 2)
        y = torch.cat([torch.logaddexp(a, b), torch.erfc(d), y], 2)
        i, j = torch.meshgrid(torch.arange(5.0), torch.arange(10.0),
                              indexing="ij")
        y = torch.nan_to_num(torch.where(y > 2, float("inf"), y), posinf=2.5)
        y = y + i / 4 - j / 8 + F.one_hot(y.argmax(2), 10).float()
        y = y + y.unfold(1, 3, 1).mean(3).repeat(1, 2, 1)[:, :5]
        t = F.affine_grid(self.t(x.flatten(1)).view(-1, 2, 3),
                          [x.shape[0], 1, 5, 10], align_corners=False)
        z = F.grid_sample(y[:, None], t, align_corners=False)
        v, at = F.max_pool2d(z, 2, 2, return_indices=True)
        z = F.max_unpool2d(v, at, 2, 2, output_size=(5, 10))
        return y, z, h + c, torch.cosine_similarity(y, y.flip(2), dim=2)


class Functions(nn.Module):
    """Functions of two tensors, stacks, diagonals, products, places; a
    picture without a batch."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 2, 3, 3))

    def forward(self, x):
        a, b = x[0], x[1]  # 4 x 6
        y = torch.atan2(a, b) + torch.hypot(a, b) + torch.fmax(a, b)
        y = y + torch.copysign(a, b) + torch.xlogy(a.abs(), b.abs() + 1)
        y = y + torch.logaddexp2(a, b) + torch.sinc(a) + torch.deg2rad(b)
        y = y + torch.heaviside(a, b) + torch.isclose(a, b, rtol=1.0).float()
        y = y + torch.signbit(b) + torch.angle(a) + torch.fmin(a, b)
        s = torch.hstack([torch.vstack([a, b]), torch.column_stack(
            [a[:, 0], b[:, :5]]).repeat(2, 1)])  # 8 x 12
        s = s + torch.diag_embed(s[:, 0], 4)[:8, :12]
        d = torch.diagonal(s, 1) * s[:5].T.diagonal(-1, 0, 1)[:1]
        r = torch.rot90(s, 3, (0, 1)).diff(dim=1)  # 12 x 7
        r = r + torch.kron(a[:3, :1], b[:, :1]).expand(12, 7)
        r = r + torch.cross(s[:3, :7].T, s[3:6, :7].T, dim=1).sum(1)
        t = torch.tensordot(x, x.flip(2), ([0, 2], [0, 2])) + torch.inner(
            a, b) + torch.addr(a[:, :4], a[:, 1], b[:, 2], beta=0.5, alpha=2)
        c = torch.cdist(a, b) + torch.dist(a, b, 1) + torch.trace(t)
        low, high = torch.aminmax(c, dim=1)
        m, at = r.median(1)
        m = m + r.cumprod(0)[:, 1] + torch.count_nonzero(r > 0, 1)
        i = torch.tensor([2, 0])
        t = t.index_add(0, i, c[:2], alpha=3).index_fill(1, i, 0.5)
        t = t + torch.take(c, torch.tensor([[5], [1], [0], [3]]))
        t = t + torch.take_along_dim(t, t.argsort(1)[:, :1], 1)
        k = torch.bucketize(m, torch.tensor([-1.0, 0.0, 0.5, 2.0]))
        k = k + torch.isin(at, torch.tensor([1, 3])).long()
        u = F.conv2d(x, self.w, padding=1)  # 3 x 4 x 6
        u = F.max_pool2d(u, 2) + F.avg_pool2d(u, 2, divisor_override=3)
        u = F.conv_transpose2d(u, self.w, stride=2)  # 2 x 5 x 7
        v = F.adaptive_avg_pool2d(u, (2, 4)) + F.adaptive_max_pool2d(u, 1)
        v = v * F.adaptive_avg_pool2d(u[:, :4, :6], (2, 1))
        v = v + F.mse_loss(a, b) + F.l1_loss(a, b, reduction="sum")
        return y, d, r, t, low * high, m, k.float(), v


class Cells(nn.Module):
    """Steps of recurrent layers, bags, boxes, losses, a sum of products of
    three tensors, averages by a number."""

    def __init__(self):
        super().__init__()
        self.l = nn.LSTMCell(6, 4)
        self.g = nn.GRUCell(6, 4, bias=False)
        self.t = nn.RNNCell(6, 4)
        self.r = nn.RNNCell(6, 4, nonlinearity="relu")
        self.bags = nn.ModuleList(nn.EmbeddingBag(9, 4, mode=m)
                                  for m in ("sum", "mean", "max"))
        self.b = nn.Bilinear(4, 4, 4)
        self.register_buffer("label", torch.tensor([2, 0, 1]))

    def forward(self, x):
        import torchvision
        h, c = self.l(x)
        y = self.g(x, h) + self.t(x, c) * self.r(x)
        i = torch.tensor([[1, 2, 8], [0, 3, 3], [7, 5, 1]])
        for bag in self.bags:
            y = y + bag(i)
        y = self.b(y, h) + y
        p = y.repeat(1, 6).view(1, 3, 4, 6)
        a = F.avg_pool2d(p, (3, 2), (2, 3), (1, 1), True, False, 5)
        b = F.avg_pool2d(p, 2, 1, 1, count_include_pad=False,
                         divisor_override=3)
        z = torchvision.ops.roi_align(
            p, torch.tensor([[0, 0.5, 0.25, 4.0, 3.0], [0, 1.0, 1, 6, 2]]),
            (2, 3), 0.75, 2, True)
        q = torch.stack([
            F.huber_loss(x, x.flip(1), delta=0.7),
            F.smooth_l1_loss(x, x.flip(0), beta=0.3, reduction="sum"),
            F.soft_margin_loss(x, x.sign()), F.cross_entropy(y, self.label),
            F.nll_loss(y.log_softmax(1), self.label, ignore_index=1)])
        return y, a, b, z, q


def save(folder, name, network, x, dynamic=None, core=False):
    torch.manual_seed(1)
    network = network().eval()
    with torch.no_grad():
        for p in network.buffers():
            if p.is_floating_point():
                p.copy_(torch.rand(p.shape) + 0.5)
        y = network(x)
        program = torch.export.export(network, (x,), dynamic_shapes=dynamic)
        if core:
            program = program.run_decompositions()
    whole, lean = io.BytesIO(), io.BytesIO()
    torch.export.save(program, whole)
    with zipfile.ZipFile(whole) as a, zipfile.ZipFile(
            lean, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as b:
        for member in a.namelist():
            data = a.read(member)
            if "sample_inputs" in member or "/.data/" in member:
                continue
            if member.endswith("models/model.json"):
                model = json.loads(data)
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {}
                model["guards_code"] = []
                data = json.dumps(model, separators=(",", ":")).encode()
            b.writestr(zipfile.ZipInfo("a/" + member.split("/", 1)[1]), data,
                       zipfile.ZIP_DEFLATED)
    with open(os.path.join(folder, name + ".pt2"), "wb") as f:
        f.write(lean.getvalue())
    y = y if isinstance(y, tuple) else (y,)
    np.savez(os.path.join(folder, name + ".npz"), input0=x.numpy(),
             **{"output%d" % i: t.numpy() for i, t in enumerate(y)})


def main():
    folder = sys.argv[1]
    torch.manual_seed(2)
    free = torch.export.Dim.AUTO
    x = torch.randn(2, 3, 16, 16)
    save(folder, "pictures", Pictures, x)
    save(folder, "pictures_core", Pictures, x, core=True)
    x = torch.randn(3, 5, 8)
    save(folder, "rows", Rows, x, dynamic=({0: free},))
    save(folder, "rows_core", Rows, x, core=True)
    x = torch.randn(3, 5, 6)
    save(folder, "sequences", Sequences, x, dynamic=({0: free},))
    x = torch.randn(2, 4, 6)
    save(folder, "functions", Functions, x)
    save(folder, "functions_core", Functions, x, core=True)
    x = torch.randn(3, 6)
    save(folder, "cells", Cells, x)
    save(folder, "cells_core", Cells, x, core=True)


main()
