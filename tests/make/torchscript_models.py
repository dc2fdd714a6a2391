#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small programs of TorchScript with their outputs.

    torchscript_models.py FOLDER

Writes NAME.pt (debug information left out) and NAME.npz with input0, ... and
output0, ... for each network below; those in tests/data/torch were made so with
PyTorch 2.9.1.  tests/unit/weights/torch/script reads them.
"""
import io
import os
import sys
import zipfile
from typing import Dict, List, NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = nn.Conv2d(c, c, 3, padding=1, groups=2, bias=False)
        self.n = nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(self.n(self.c(x)), inplace=True)


class Traced(nn.Module):
    """Sizes that are computed, writes in place, lists of tensors."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2)
        self.b = nn.Sequential(Block(4), Block(4))
        self.t = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.f = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([0.5, 1.5, -1.0, 2.0]))

    def forward(self, x):
        x = self.a(x)
        y = self.b(x) + x
        y = F.interpolate(self.t(y), size=x.shape[2:], mode="bilinear",
                          align_corners=True)
        y = y.view(y.size(0), 2, y.shape[1] // 2, -1)
        u, v = y.chunk(2, 1)
        y = torch.cat([u.squeeze(1), v.squeeze(1) * 2], 1)
        y[:, 1:3] += 1
        y = y * self.scale.view(1, 4, 1)
        m, at = y.max(2)
        z, _ = torch.std_mean(y, -1)
        return self.f(m + z).softmax(1), at.float()


class Pair(NamedTuple):
    y: torch.Tensor
    z: Optional[torch.Tensor]


class Scripted(nn.Module):
    """Loops, conditions, containers, a class of tuples, optional values."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 1)
        self.b = nn.ModuleList([Block(4), Block(4), Block(4)])
        self.d = nn.Dropout(0.4)
        self.f = nn.Linear(8, 2)
        self.pads: List[int] = [1, 0, 2, 1]
        self.add: Optional[nn.Module] = None
        self.names = {"first": 2, "second": 3}

    def pick(self, x: torch.Tensor, by: Optional[float] = None):
        if by is None:
            return x
        return x * by

    def forward(self, x):
        if x.dim() != 4:
            raise ValueError("a picture is needed")
        if not torch.jit.is_scripting() and self.training:
            x = x.neg()
        x = self.d(self.a(x))
        kept: Dict[str, torch.Tensor] = {}
        parts: List[torch.Tensor] = []
        for i, block in enumerate(self.b):
            x = block(x) if i != 1 else x + block(x)
            parts.append(x.mean([2, 3]))
            kept["p%d" % i] = x
        i = 0
        while i < 2:
            x = F.pad(x, self.pads, value=float(i) + 0.5)
            i += 1
        n = self.names["first"] + self.names["second"] * -1
        x = self.pick(x, 1.0 / (3 + n)) + self.pick(x)
        if "p0" in kept and self.add is None:
            parts[0] = parts[0] + x.amax([2, 3])
        h, w = x.shape[-2:]
        y = self.f(torch.cat(parts[:2], 1)) / float(h * w // 7)
        return Pair(y, None), [parts[-1], parts[1]]


class Frozen(nn.Module):
    """Batch norms that freezing folds; weights become constants."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding=1)
        self.n = nn.BatchNorm2d(4)
        self.b = Block(4)
        self.f = nn.Linear(4, 3)

    def forward(self, x):
        y = F.silu(self.n(self.a(x)))
        if y.shape[1] == 4:
            y = self.b(y)
        y = F.adaptive_avg_pool2d(y, (1, 1)).flatten(1)
        return self.f(y)


def flat(y):
    if isinstance(y, torch.Tensor):
        return [y]
    return [t for v in y if v is not None for t in flat(v)]


def save(folder, name, network, x, freeze=False, trace=False):
    torch.manual_seed(1)
    network = network().eval()
    with torch.no_grad():
        for n, p in network.named_buffers():
            if p.is_floating_point():
                p.copy_(torch.rand(p.shape) - (0.5 if "mean" in n else -0.5))
        y = flat(network(x.clone()))
        program = (torch.jit.trace(network, x) if trace
                   else torch.jit.script(network))
        if freeze:
            program = torch.jit.freeze(program)
    whole, lean = io.BytesIO(), io.BytesIO()
    torch.jit.save(program, whole)
    with zipfile.ZipFile(whole) as a, zipfile.ZipFile(lean, "w") as b:
        for member in a.namelist():
            if member.endswith(".debug_pkl") or "/.data/" in member:
                continue
            b.writestr(zipfile.ZipInfo("a/" + member.split("/", 1)[1]),
                       a.read(member), zipfile.ZIP_DEFLATED, 9)
    with open(os.path.join(folder, name + ".pt"), "wb") as f:
        f.write(lean.getvalue())
    np.savez(os.path.join(folder, name + ".npz"), input0=x.numpy(),
             **{"output%d" % i: t.numpy() for i, t in enumerate(y)})


def main():
    folder = sys.argv[1]
    torch.manual_seed(2)
    x = torch.randn(2, 3, 9, 8)
    save(folder, "traced", Traced, x, trace=True)
    save(folder, "scripted", Scripted, x)
    save(folder, "frozen", Frozen, x, freeze=True)


main()
