#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of train on drawn networks, data and rules, beside PyTorch.

    train_steps.py FOLDER --train=build/train [--count=50] [--seed=N]
                   [--first=0] [--steps=20]

A network of convolutions, batch normalisations, pools, activations, residual
sums and dense layers is drawn in PyTorch, exported to ONNX in training form and
trained by `train --init-from`, without shuffling and augmentation.  The data,
gray idx files or folders of colour PNG files, may be smaller than a batch, or
leave one picture for the last.  Drawn too: the rule and its constants, weight
decay, schedule, warm-up, accumulation, clipping, label smoothing, threads and
backend.  Every step's loss and rate are compared with PyTorch's: losses to 2e-3
(sums of other orders grow from step to step), rates to 1e-6.

Without --seed the seed is the clock's, which the first line says.
Exit status: 1 where a case differs or crashes.
"""
import collections
import csv
import gzip
import logging
import os
import random
import shutil
import struct
import sys
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite


class Residual(nn.Module):
    def __init__(self, c, norm):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=not norm)
        self.n = nn.BatchNorm2d(c) if norm else nn.Identity()

    def forward(self, x):
        return F.relu(x + self.n(self.a(x)))


def draw_net(d, c, side, classes):
    layers, size = [], side
    for _ in range(d.randint(1, 4)):
        kind = d.choice(("conv", "conv", "depth", "residual", "pool", "act"))
        out = d.choice((3, 4, 8))
        if kind == "conv":
            stride = d.choice((1, 1, 2)) if size > 4 else 1
            layers.append(nn.Conv2d(c, out, 3, stride, 1, bias=d.random() < .5))
            size = (size - 1) // stride + 1
            c = out
        elif kind == "depth":
            layers.append(nn.Conv2d(c, c, 3, padding=1, groups=c))
        elif kind == "residual":
            layers.append(Residual(c, d.random() < 0.5))
        elif kind == "pool" and size >= 4:
            layers.append(d.choice((nn.MaxPool2d, nn.AvgPool2d))(2))
            size //= 2
        else:
            layers.append(d.choice((nn.ReLU, nn.Tanh, nn.Sigmoid, nn.SiLU,
                                    nn.LeakyReLU, nn.ELU))())
        if kind in ("conv", "depth") and d.random() < 0.6:
            layers.append(nn.BatchNorm2d(c))
        if kind in ("conv", "depth") and d.random() < 0.8:
            layers.append(nn.ReLU())
    if d.random() < 0.3:
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        n = c
    else:
        layers.append(nn.Flatten())
        n = c * size * size
    if d.random() < 0.3:
        layers += [nn.Linear(n, 12), nn.ReLU()]
        n = 12
    layers.append(nn.Linear(n, classes))
    return nn.Sequential(*layers)


def write_data(d, folder, colour, side, classes):
    """(pictures N, C, H, W as bytes, labels) in the order of train."""
    from PIL import Image
    shutil.rmtree(folder, ignore_errors=True)
    r = np.random.RandomState(d.randrange(1 << 30))
    n = d.choice((1, 2, 5, 17, 33, 50))
    n = max(n, classes) if colour else n
    labels = r.randint(0, classes, n)
    if colour:  # each class has a picture, and the folders' order
        labels = np.sort(np.concatenate([np.arange(classes),
                                         labels[classes:]]))
    x = r.randint(0, 256, (n, 3 if colour else 1, side, side)).astype(np.uint8)
    if not colour:
        os.makedirs(folder)
        for part, k in (("train", n), ("t10k", min(n, 3))):
            zipped = d.random() < 0.3
            for name, head, data in (
                    ("images-idx3", struct.pack(">IIII", 2051, k, side, side),
                     x[:k]), ("labels-idx1", struct.pack(">II", 2049, k),
                              labels[:k].astype(np.uint8))):
                path = "%s/%s-%s-ubyte" % (folder, part, name)
                with (gzip.open(path + ".gz", "wb") if zipped else
                      open(path, "wb")) as f:
                    f.write(head + data.tobytes())
        return x, labels
    for i, (a, k) in enumerate(zip(x, labels)):
        os.makedirs("%s/class%d" % (folder, k), exist_ok=True)
        Image.fromarray(a.transpose(1, 2, 0)).save(
            "%s/class%d/%05d.png" % (folder, k, i))
    return x, labels


def draw_rule(d, net):
    """(options of train, optimiser, of the rate of step t: factor)"""
    rule = d.choice(("sgd", "momentum", "nesterov", "rmsprop", "adam",
                     "adamw"))
    lr = d.choice((0.01, 0.05)) if rule in ("sgd", "momentum", "nesterov") \
        else d.choice((0.001, 0.003))
    decay, every = d.choice((0, 0, 0.01, 0.1)), d.random() < 0.4
    momentum, beta2 = d.choice((0.9, 0.5)), d.choice((0.99, 0.999))
    weights = [p for m in net.modules() for n, p in m.named_parameters(
        recurse=False) if n == "weight" and p.ndim > 1]
    others = [p for p in net.parameters() if all(p is not w for w in weights)]
    groups = [{"params": weights, "weight_decay": decay},
              {"params": others, "weight_decay": decay if every else 0}]
    options = ["--optimizer=" + rule, "--lr=%g" % lr,
               "--weight-decay=%g" % decay]
    if rule not in ("sgd", "rmsprop"):
        options += ["--momentum=%g" % momentum]
    if rule in ("rmsprop", "adam", "adamw"):
        options += ["--beta2=%g" % beta2]
    options += ["--decay-all"] if every else []
    groups = [g for g in groups if g["params"]]
    if rule in ("sgd", "momentum", "nesterov"):
        o = torch.optim.SGD(groups, lr, 0 if rule == "sgd" else momentum,
                            nesterov=rule == "nesterov")
    elif rule == "rmsprop":
        o = torch.optim.RMSprop(groups, lr, beta2)
    else:
        o = (torch.optim.Adam if rule == "adam" else torch.optim.AdamW)(
            groups, lr, (momentum, beta2))
    policy = d.choice(("fixed", "fixed", "step", "exp"))
    gamma = d.choice((0.5, 0.9))
    options += ["--lr-policy=" + policy]
    if policy == "step":
        n = d.randint(2, 7)
        options += ["--lr-step=%d" % n, "--gamma=%g" % gamma]
        return options, o, lr, lambda t: gamma ** (t // n)
    if policy == "exp":
        options += ["--gamma=%g" % gamma]
        return options, o, lr, lambda t: gamma ** t
    return options, o, lr, lambda t: 1


def reference(net, x, y, batch, accum, steps, o, lr, factor, clip, smooth):
    net.train()
    losses, rates, at = [], [], 0
    batches = max(1, len(x) // batch)
    for t in range(steps):
        o.zero_grad()
        parts, pictures = [], 0
        for _ in range(accum):
            take = slice(at % batches * batch,
                         min(at % batches * batch + batch, len(x)))
            at += 1
            parts.append(take)
            pictures += take.stop - take.start
        total = 0.0
        for take in parts:
            loss = F.cross_entropy(net(x[take]), y[take], reduction="sum",
                                   label_smoothing=smooth) / pictures
            loss.backward()
            total += float(loss.detach())
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        for g in o.param_groups:
            g["lr"] = lr * factor(t)
        rates.append(lr * factor(t))
        o.step()
        losses.append(total)
    return losses, rates


def attempt(a, d):
    colour = d.random() < 0.5
    side, classes = d.randint(6, 12), d.randint(2, 5)
    net = draw_net(d, 3 if colour else 1, side, classes)
    data = a.folder + "/data"
    x, y = write_data(d, data, colour, side, classes)
    norm = any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
    batch = d.choice((1, 4, 16, 64))
    if norm and batch == 1:
        batch = 4
    if norm and len(x) == 1:
        return "not built", "", ""
    options, o, lr, factor = draw_rule(d, net)
    accum = d.choice((1, 1, 1, 2))
    clip, smooth = d.choice((0, 0, 0.5)), d.choice((0, 0, 0.1))
    options += ["--batch=%d" % batch, "--accum=%d" % accum]
    options += ["--clip-grad=%g" % clip] if clip else []
    options += ["--label-smoothing=%g" % smooth] if smooth else []
    options += d.choice(([], ["--threads=2"], ["--backend=ref"],
                         ["--deterministic"]))
    facts = "%d pictures %s, %s" % (len(x), " ".join(options), " ".join(
        str(net).split()))
    path = a.folder + "/net.onnx"
    inputs = torch.from_numpy(x.astype(np.float32) / 255)
    with suite.silent():
        torch.onnx.export(
            net, (inputs[:2] if len(x) > 1 else inputs,), path, dynamo=False,
            opset_version=13, input_names=["x"], output_names=["y"],
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False, dynamic_axes={"x": {0: "b"}})
    for f in ("/out.safetensors", "/log.csv"):
        if os.path.exists(a.folder + f):
            os.remove(a.folder + f)
    rc, text = suite.run(
        a.train, "--init-from=" + path, "--data=" + data, "-q",
        "-o", a.folder + "/out.safetensors", "--steps=%d" % a.steps,
        "--no-shuffle", "--augment=none", "--log=" + a.folder + "/log.csv",
        *options)
    if rc != 0:
        return "refused" if rc in (1, 2) else "crashed", text, facts
    losses, rates = reference(net, inputs, torch.from_numpy(y), batch, accum,
                              a.steps, o, lr, factor, clip, smooth)
    with open(a.folder + "/log.csv") as f:
        rows = [r for r in csv.DictReader(f) if r["loss"]]
    if len(rows) != a.steps:
        return "differs", "%d steps logged" % len(rows), facts
    for t, (row, loss, rate) in enumerate(zip(rows, losses, rates)):
        if not np.isfinite(loss) or loss > 20:
            break  # it diverges
        if abs(float(row["rate"]) - rate) > 1e-6 * rate + 1e-12:
            return "differs", "step %d: rate %s, expected %g" % (
                t + 1, row["rate"], rate), facts
        if abs(float(row["loss"]) - loss) > 2e-3 * max(1, loss):
            return "differs", "step %d: loss %s, expected %g" % (
                t + 1, row["loss"], loss), facts
    return "match", "", facts


def main():
    p = suite.parser(__doc__)
    p.add_argument("--train", default="train")
    p.add_argument("--count", type=int, default=50)
    p.add_argument("--seed", type=int)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--steps", type=int, default=20)
    a = p.parse_args()
    if a.seed is None:
        a.seed = int(time.time())
    print("seed", a.seed, flush=True)
    os.makedirs(a.folder, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for i in range(a.first, a.first + a.count):
        d = random.Random("%d %d" % (a.seed, i))
        torch.manual_seed(d.randrange(1 << 30))
        try:
            status, why, facts = attempt(a, d)
        except Exception as e:  # of this program or of what it calls
            status, why, facts = "crashed", repr(e), ""
        total[status] += 1
        if status in ("match", "not built"):
            continue
        causes[status, why.split(":")[0][:24]].append((str(i), why))
        print(i, facts, status, " ".join(why.split())[:300], flush=True)
    return suite.report(total, causes, left_out=("not built",))


if __name__ == "__main__":
    sys.exit(main())
