#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/bench/layers: the distinct problems of many networks, each with
the number of networks that have it.

    layers.py --wconv=wconv --kbench=kbench -o tests/bench/layers [--part=I/N]
        [--match='torchvision/*'] [--add=FILE]

Each network of torchvision (classification, segmentation) and timm is exported
to ONNX with random weights and converted by wconv; `kbench all --list` says what
the planner asks of the kernels at a batch of 1 and the network's own picture
size.  Networks that do not convert are named in a comment at the end.  --part
and --match choose among the networks, --add begins with what an earlier run
wrote.
"""
import argparse
import collections
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import warnings

OPERATIONS = ("conv_fprop", "conv_transpose_fprop", "dense_fprop", "pool_fprop")
MOST_PARAMETERS = 120e6


def networks():
    import timm
    import torchvision

    seen = {}
    for name in torchvision.models.list_models(torchvision.models):
        seen["torchvision/" + name] = None
    for name in torchvision.models.list_models(torchvision.models.segmentation):
        seen["segmentation/" + name] = None
    for name in timm.list_models():
        seen["timm/" + name] = None
    return sorted(seen)


def size_of(name):
    import torch

    try:
        with torch.device("meta"):
            net = build(name)[0]
    except NotImplementedError:  # it computes with tensors to find its widths
        net = build(name)[0]
    return sum(p.numel() for p in net.parameters())


def build(name):
    import timm
    import torchvision

    kind, short = name.split("/")
    if kind == "timm":
        net = timm.create_model(short, pretrained=False, exportable=True)
        size = net.pretrained_cfg["input_size"]
        return net, size
    options = {"weights": None}
    if kind == "segmentation":
        options["weights_backbone"] = None
    net = torchvision.models.get_model(short, **options)
    if kind == "segmentation":
        return net, (3, 520, 520)
    size = 299 if short.startswith("inception") else 224
    return net, (3, size, size)


class First(object):
    """The main output of a network that gives several."""

    @staticmethod
    def of(net):
        import torch

        class Wrapped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, x):
                y = self.net(x)
                return y["out"] if isinstance(y, dict) else y

        return Wrapped()


def problems(name, args, folder):
    import torch

    if size_of(name) > MOST_PARAMETERS:
        raise RuntimeError("more than %d million parameters" % (MOST_PARAMETERS / 1e6))
    net, size = build(name)
    onnx = os.path.join(folder, "net.onnx")
    model = os.path.join(folder, "net.infer")
    with torch.no_grad():
        torch.onnx.export(First.of(net.eval()), torch.zeros(1, *size), onnx, dynamo=False,
                          opset_version=17)
    subprocess.run([args.wconv, onnx, "-o", model, "-q"], check=True, capture_output=True,
                   text=True)
    out = subprocess.run([args.kbench, "all", "-m", model, "--list"], check=True,
                         capture_output=True, text=True).stdout
    found = set()
    for line in out.splitlines():
        words = line.split()
        if words[0] not in OPERATIONS or re.search(r"id\d", words[1]):
            continue  # of kbench's figures: two dimensions
        # Without the batch, the layout, the type and the number of layers.
        keep = [words[0], re.sub(r"mb\d+", "", words[1])]
        if words[0] == "dense_fprop":
            shape = re.match(r"1x(\d+),(\d+)x\d+", words[1])
            if not shape:
                continue  # a row for each of many positions
            keep[1] = "ic%soc%s" % shape.groups()
        keep += [w for w in words[2:] if w[0] == "+" or w.startswith(("max", "average"))]
        found.add(" ".join(keep))
    return found


def read(path, count, good, failed):
    for line in open(path):
        words = line.rstrip("\n").split(" ", 2)
        if words[0].isdigit() and not re.search(r"\bid\d|[a-z]\d+id\d", words[2]):
            count[words[1] + " " + words[2]] += int(words[0])
        elif words[1] == "has:":
            good.append(words[2])
        elif words[1] == "not:":
            failed.append(words[2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wconv", default="wconv")
    parser.add_argument("--kbench", default="kbench")
    parser.add_argument("--part", default="0/1", help="every N-th network from the I-th on")
    parser.add_argument("--match", default="*")
    parser.add_argument("--add")
    parser.add_argument("-o", default="layers")
    args = parser.parse_args()
    first, step = map(int, args.part.split("/"))
    warnings.simplefilter("ignore")
    count, good, failed = collections.Counter(), [], []
    if args.add:
        read(args.add, count, good, failed)
    for name in fnmatch.filter(networks(), args.match)[first::step]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                count.update(problems(name, args, folder))
                good.append(name)
            except Exception as e:  # a network that its framework cannot export
                why = getattr(e, "stderr", None) or str(e)
                failed.append("%s: %s" % (name, why.strip().split("\n")[0][:100]))
        print(len(good), len(failed), name, flush=True, file=sys.stderr)
        write(args.o, count, good, failed)


def write(path, count, good, failed):
    with open(path + ".part", "w") as f:
        f.write("# SPDX-License-Identifier: Apache-2.0\n")
        f.write("# Problems of %d networks, from tests/bench/layers.py\n" % len(good))
        for text, n in sorted(count.items(), key=lambda item: (-item[1], item[0])):
            f.write("%d %s\n" % (n, text))
        for name in good:
            f.write("# has: %s\n" % name)
        for line in failed:
            f.write("# not: %s\n" % line)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
