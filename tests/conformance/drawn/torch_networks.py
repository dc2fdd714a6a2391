#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks of PyTorch libraries, drawn, as PyTorch's exporters write them.

    torch_networks.py FOLDER --wconv=build/wconv --infer=build/infer
                      [--library=smp|timm|transformer] [--count=10] [--seed=1]
                      [--most=30e6] [--known=FILE] [--only=REGEX] [--list=FILE]

smp: decoders of segmentation_models_pytorch with drawn encoders and options;
timm: names of timm.list_models() that FILE does not hold (one a line) with at
most --most parameters; transformer: torch.nn's encoders and decoders and towers
like CLIP's with drawn sizes.  Weights are random, batch norms calibrated.

Each network is written in six forms: ts (the exporter of TorchScript to ONNX),
dynamo (torch.export to ONNX), both with fixed sizes; free and dynamo-free with
a free batch and, of smp, free height and width, run at two shapes; pt2; trace.
Results are compared with PyTorch's: to 1e-4 of the largest output, or at most
twice as far from double precision as PyTorch itself ("rounding").
"""
import collections
import json
import logging
import os
import random
import re
import sys
import time
import warnings

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite
from torch_layers import export, flat, unlike
from torch_ops import close, outputs_of, run_model

FORMS = ("ts", "free", "dynamo", "dynamo-free", "pt2", "trace")
DECODERS = ("Unet", "UnetPlusPlus", "FPN", "PSPNet", "DeepLabV3",
            "DeepLabV3Plus", "MAnet", "Linknet", "PAN", "UPerNet", "Segformer")
ENCODERS = ("resnet18", "resnet34", "mobilenet_v2", "efficientnet-b0",
            "timm-regnetx_002", "vgg11_bn", "densenet121", "mit_b0",
            "mobileone_s0", "resnext50_32x4d", "timm-skresnet18",
            "timm-mobilenetv3_small_075", "tu-convnext_atto",
            "tu-resnet10t", "xception", "dpn68", "se_resnet50")


class Tower(nn.Module):
    """A picture tower of patches, or a text tower, like those of CLIP."""

    def __init__(self, draw):
        super().__init__()
        width = draw.choice((32, 48, 64))
        self.picture = draw.random() < 0.5
        if self.picture:
            self.patch = nn.Conv2d(3, width, 8, 8, bias=False)
            self.first = nn.Parameter(torch.randn(width))
            self.place = nn.Parameter(torch.randn(17, width) * 0.1)
        else:
            self.words = nn.Embedding(100, width)
            self.place = nn.Parameter(torch.randn(12, width) * 0.1)
        self.pre = nn.LayerNorm(width)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                width, draw.choice((2, 4)), 2 * width, 0.0,
                draw.choice(("relu", "gelu")), batch_first=True,
                norm_first=draw.random() < 0.5),
            draw.randint(1, 3), enable_nested_tensor=False)
        self.post = nn.LayerNorm(width)
        self.out = nn.Linear(width, 24, bias=False)
        self.causal = not self.picture and draw.random() < 0.7

    def forward(self, x):
        if self.picture:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], 1, -1), x], 1)
        else:
            end = x.argmax(-1)
            x = self.words(x)
        x = self.pre(x + self.place)
        mask = None
        if self.causal:
            mask = torch.full((12, 12), float("-inf")).triu(1)
        x = self.layers(x, mask)
        x = x[:, 0] if self.picture else x[torch.arange(len(x)), end]
        x = self.out(self.post(x))
        return x / x.norm(dim=-1, keepdim=True)

    def example(self, n):
        return ([torch.randn(n, 3, 32, 32)] if self.picture
                else [torch.randint(0, 100, (n, 12))])


class Both(nn.Module):
    """Encoder and decoder over sequences, or pixels and queries (DETR)."""

    def __init__(self, draw):
        super().__init__()
        self.width = draw.choice((32, 64))
        self.pixels = draw.random() < 0.5
        self.body = nn.Transformer(
            self.width, draw.choice((2, 4)), draw.randint(1, 2),
            draw.randint(1, 2), 64, 0.0, batch_first=True,
            norm_first=draw.random() < 0.5,
            activation=draw.choice(("relu", "gelu")))
        if self.pixels:
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(),
                                      nn.Conv2d(16, self.width, 3, 4, 1))
            self.query = nn.Parameter(torch.randn(9, self.width))
            self.heads = nn.ModuleList(
                [nn.Linear(self.width, 5), nn.Linear(self.width, 4)])

    def forward(self, x, y=None):
        if not self.pixels:
            return self.body(x, y)
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = self.body(x, self.query.unsqueeze(0).repeat(x.shape[0], 1, 1))
        return self.heads[0](x), self.heads[1](x).sigmoid()

    def example(self, n):
        return ([torch.randn(n, 3, 40, 48)] if self.pixels else
                [torch.randn(n, 11, self.width), torch.randn(n, 7, self.width)])


class SegmentHead(nn.Module):
    """Tokens to a map: an encoder over patches, then convolutions."""

    def __init__(self, draw):
        super().__init__()
        self.width = draw.choice((32, 48))
        self.patch = nn.Conv2d(3, self.width, 7, 4, 3)
        self.layer = nn.TransformerEncoderLayer(
            self.width, 2, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.up = draw.choice(("bilinear", "nearest", "bicubic"))
        self.head = nn.Conv2d(self.width, 6, 1)

    def forward(self, x):
        size = x.shape[-2:]
        x = self.patch(x)
        n, c, h, w = x.shape
        x = self.layer(x.flatten(2).transpose(1, 2))
        x = x.transpose(1, 2).reshape(n, c, h, w)
        return nn.functional.interpolate(self.head(x), size=size, mode=self.up)

    def example(self, n):
        return [torch.randn(n, 3, 40, 56)]


class Module(nn.Module):
    """A network of whatever output as tensors."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return self.m(x)


def calibrate(module, inputs):
    """Batch norms with the statistics of what they meet."""
    kept = [(m, m.momentum) for m in module.modules()
            if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for m, _ in kept:
            m.train()
            m.momentum = 0.6
        for _ in range(3):
            module(*inputs)
        for m, momentum in kept:
            m.momentum = momentum
            m.eval()


def draw_smp(draw):
    import segmentation_models_pytorch as smp
    name = draw.choice(DECODERS)
    encoder = draw.choice(ENCODERS)
    more = {"classes": draw.choice((1, 3)), "encoder_weights": None,
            "in_channels": draw.choice((1, 3, 4))}
    if encoder.startswith("mit"):
        more["in_channels"] = 3
    if name in ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PAN"):
        more["activation"] = draw.choice((None, "sigmoid"))
    if name in ("Unet", "UnetPlusPlus"):
        more["decoder_attention_type"] = draw.choice((None, "scse"))
    if name in ("Unet", "Linknet"):
        more["decoder_use_norm"] = draw.choice(
            ("batchnorm", "batchnorm", "groupnorm" if name == "Linknet"
             else "instancenorm", False))
    if name in ("Unet", "PSPNet") and draw.random() < 0.3:
        more["aux_params"] = {"classes": 5, "pooling": draw.choice(
            ("avg", "max"))}
    m = getattr(smp, name)(encoder, **more).eval()
    for p in m.modules():  # the check of sizes is Python's alone
        if hasattr(p, "check_input_shape"):
            p.check_input_shape = lambda x: None
    side = draw.choice((64, 96))
    c = more["in_channels"]
    return (m, "%s %s %s" % (name, encoder, more), [torch.rand(2, c, side, 64)],
            [torch.rand(3, c, side + 32, 128)])


def draw_timm(draw, a, known):
    import timm
    names = [n for n in timm.list_models() if n not in known and not re.search(
        "giant|huge|large|_xxl|_l_|nfnet_f|_b[5-8]|so400m|7b|naflex|base|101|"
        "200|152|320|256gf|128gf|gemma|_h_|_g_", n)]
    name = draw.choice(names)
    m = timm.create_model(name, pretrained=False).eval()
    if sum(p.numel() for p in m.parameters()) > a.most:
        raise ValueError("too large")
    c, h, w = m.default_cfg["input_size"]
    if not m.default_cfg.get("fixed_input_size"):
        h = w = 128
    try:
        with torch.no_grad():
            m(torch.rand(1, c, h, w))
    except Exception:
        c, h, w = m.default_cfg["input_size"]
    return m, name, [torch.rand(2, c, h, w)], [torch.rand(3, c, h, w)]


def draw_transformer(draw):
    m = draw.choice((Tower, Both, SegmentHead))(draw).eval()
    return m, "%s %s" % (type(m).__name__, {
        k: v for k, v in vars(m).items()
        if isinstance(v, (bool, str)) and not k.startswith("_")
        and k != "training"}), m.example(2), m.example(3)


def rounding(module, inputs, got, why):
    """True where PyTorch is at least half as far from double precision."""
    if not why.endswith("of the largest output"):
        return False
    with torch.no_grad():
        try:
            m = module.double()
            exact = flat(m(*[x.double() if x.is_floating_point() else x
                             for x in inputs]))
        except Exception:
            return False
        finally:
            module.float()
        own = flat(module(*inputs))
    for g, w, e in zip(got, own, exact):
        if abs(g - e.numpy()).max() > 2 * abs((w - e).numpy()).max():
            return False
    return True


def attempt(a, module, runs, want, form, spatial):
    path = a.folder + "/case." + (
        "pt2" if form == "pt2" else "pt" if form == "trace" else "onnx")
    inputs, free = runs[0], None
    if form.endswith("free"):
        axes = [0, 2, 3] if spatial else [0]
        free = [{d: "batch" if d == 0 else "size%d" % d for d in axes
                 if d < x.ndim} for x in inputs]
    else:
        runs = runs[:1]
    try:
        with suite.silent(), torch.no_grad():
            export({"free": "ts", "dynamo-free": "dynamo"}.get(form, form),
                   module, inputs, free, 17 if form in ("ts", "free") else 18,
                   path)
    except Exception as e:
        return "not exported", str(e).split("\n")[0]
    model = a.folder + "/case.infer"
    shape = []
    if form == "trace":
        arguments = torch.jit.load(path).forward.schema.arguments[1:]
        shape = ["--input-shape=%s:[%s]" % (n.name, ",".join(map(str, x.shape)))
                 for n, x in zip(arguments, inputs)]
    rc, text = suite.run(a.wconv, path, "-o", model, "-q", *shape)
    if rc != 0:
        return ("refused" if rc == 2 else "crashed",
                text.replace(path, ""))
    status = "match"
    for x, outputs in zip(runs, want):
        rc, text, out = run_model(a, model, x)
        if rc != 0:
            return ("run refused" if rc in (1, 2) else "crashed"), text
        got = outputs_of(a, model, out)
        if len(got) != len(outputs):
            return "differs", "%d outputs, expected %d" % (
                len(got), len(outputs))
        for g, w in zip(got, outputs):
            why = close(g, w.contiguous().numpy())
            if why and rounding(module, x, got, why):
                status = "rounding"
            elif why and path.endswith("onnx") and not unlike(path, x, got):
                return "not exported", "the file says something else"
            elif why:
                return "differs", "%s at %s" % (
                    why, [tuple(t.shape) for t in x])
    return status, ""


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=10)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--library", default="smp",
                   choices=("smp", "timm", "transformer"))
    p.add_argument("--most", type=float, default=30e6)
    p.add_argument("--known")
    p.add_argument("--forms", default=",".join(FORMS))
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    known = set(open(a.known).read().split()) if a.known else set()
    total, causes = collections.Counter(), collections.defaultdict(list)
    for i in range(a.first, a.first + a.count):
        draw = random.Random("%s %d %d" % (a.library, a.seed, i))
        torch.manual_seed(draw.randrange(1 << 30))
        start = time.time()
        try:
            module, name, x, other = (
                draw_smp(draw) if a.library == "smp" else
                draw_timm(draw, a, known) if a.library == "timm" else
                draw_transformer(draw))
            if a.only and not re.search(a.only, name):
                continue
            calibrate(module, x)
        except Exception as e:  # the library refuses these arguments
            total["not built"] += 1
            print(i, "not built", str(e).split("\n")[0], flush=True)
            continue
        runs, want = [], []
        with torch.no_grad():
            for r in (x, other):
                try:
                    want.append(flat(module(*r)))
                    runs.append(r)
                except Exception:  # not at that size
                    break
        if not runs:
            total["not built"] += 1
            continue
        for form in a.forms.split(","):
            try:
                status, why = attempt(a, module, runs, want, form,
                                      a.library == "smp")
            except Exception as e:  # of this program or of what it calls
                status, why = "crashed", repr(e).split("\n")[0]
            total[status] += 1
            print(i, name, form, status, why[:300], "%.0f s" % (
                time.time() - start), flush=True)
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"case": i, "name": name, "form": form,
                                      "status": status, "why": why}), file=f)
            if status not in ("match", "rounding", "not exported"):
                causes[status, name].append(("%d %s" % (i, form), why))
    return suite.report(total, causes, left_out=("not exported", "not built"))


if __name__ == "__main__":
    sys.exit(main())
