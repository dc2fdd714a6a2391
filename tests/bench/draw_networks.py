#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws convolutional networks of torchvision and timm and exports them to ONNX.

    draw_networks.py FOLDER [--count=20] [--seed=SEED] [--parameters=60e6]

A kind is a module of timm (resnet, regnet, ...) or of torchvision; kinds are
drawn at random, then a network of each, until COUNT are exported at their own
picture size.  The six networks that the repository was made for are left out,
and so are networks of more than PARAMETERS weights, pictures above 320 (but of
segmentation and feature networks) and pure transformers.  Weights are those of the initialisation, statistics of batch
normalisation random.  SEED is that of the clock by default, and printed.
Needs torch, torchvision, timm and onnx.
"""
import argparse
import math
import os
import random
import sys
import time
import warnings

import timm
import torch
import torchvision

from torch_networks import network

SIX = {"resnet50", "resnet18", "vgg16", "mobilenet_v2", "squeezenet1_1",
       "efficientnet_b0", "mobilenetv2_100", "tf_efficientnet_b0"}
# Kinds of timm that have convolutions beyond patches.
KINDS = """byobnet convnext cspnet densenet dla dpn edgenext efficientformer
efficientformer_v2 efficientnet fasternet fastvit focalnet ghostnet
hardcorenas hgnet hrnet inception_next inception_resnet_v2 inception_v3
inception_v4 levit mambaout metaformer mobilenetv3 nasnet nfnet pnasnet
regnet repghost repvit res2net resnest resnet resnetv2 rexnet selecsls shvit
sknet starnet swiftformer tresnet vgg vovnet xception xception_aligned""".split()


def kinds():
    """{kind: names}"""
    found = {k: timm.list_models(module=k) for k in KINDS}
    for name in torchvision.models.list_models():
        module = torchvision.models.get_model_builder(name).__module__
        kind = module.removeprefix("torchvision.models.")
        if kind.split(".")[0] in ("detection", "optical_flow", "quantization") \
                or "transformer" in kind or "mvit" in kind:
            continue
        found.setdefault("tv/" + kind, []).append(name)
    return {k: sorted(set(v) - SIX) for k, v in found.items() if v}


def random_statistics(net):
    for m in net.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and \
                m.running_mean is not None:
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)


def export(name, a):
    """The file, or None with a reason printed."""
    net, size = network(name)
    if max(size[-2:]) > 320 and "segmentation" not in type(net).__module__ \
            and not hasattr(net, "net"):
        raise ValueError("picture %s" % (size,))
    n = sum(p.numel() for p in net.parameters())
    if n > a.parameters:
        raise ValueError("%.0f million weights" % (n / 1e6))
    random_statistics(net)
    path = os.path.join(a.folder, name.replace("/", ".") + ".onnx")
    torch.onnx.export(net, torch.randn(1, *size), path, opset_version=17,
                      input_names=["x"], output_names=["y"], dynamo=False)
    return path


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--parameters", type=float, default=60e6)
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(a.folder, exist_ok=True)
    print("seed", a.seed, flush=True)
    rng = random.Random(a.seed)
    torch.manual_seed(a.seed)
    found = kinds()
    order = sorted(found)
    rng.shuffle(order)
    done = 0
    for kind in order:
        names = found[kind]
        rng.shuffle(names)
        for name in names[:8]:
            full = name if kind.startswith("tv/") else "timm/" + name
            try:
                with torch.no_grad():
                    path = export(full, a)
            except Exception as e:  # what timm or the exporter refuses
                print("%s: %s: %s" % (kind, full, str(e).split("\n")[0][:70]),
                      flush=True)
                continue
            print("%s: %s" % (kind, path), flush=True)
            done += 1
            break
        if done == a.count:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
