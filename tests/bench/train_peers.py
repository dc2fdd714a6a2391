#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train beside PyTorch on one GPU, in one run: a whole training step, bfloat16
products, channels last, median milliseconds by the GPU's clock.

    train_peers.py --train=PATH [--cases=resnet20:128,resnet20:512,resnet50:256]
                   [--rivals=eager,graph,compile,auto] [--layers=DIR]
                   [--markdown=FILE]

A step is the way forward, the loss, the way back and SGD with momentum and
weight decay, on a batch of random pictures that lies on the GPU.  PyTorch's
modes: eager, graph (eager recorded as one CUDA graph), compile (torch.compile as
it comes) and auto (max-autotune, with its CUDA graphs); all with automatic mixed
precision to bfloat16 and the fused optimizer.  train runs what --time-layers
prints: recorded steps.  --layers keeps its times of every launch.
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile

import numpy
import torch
import torch.nn.functional as F
import torchvision
from PIL import Image

WARMUP = 15
STEPS = 50


# ---- the networks ----------------------------------------------------------

class Block(torch.nn.Module):
    """The basic block of He et al. with option A shortcuts."""

    def __init__(self, inputs, planes):
        super().__init__()
        self.stride = 1 if inputs == planes else 2
        self.pad = (planes - inputs) // 2
        self.conv1 = torch.nn.Conv2d(inputs, planes, 3, self.stride, 1,
                                     bias=False)
        self.bn1 = torch.nn.BatchNorm2d(planes)
        self.conv2 = torch.nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(planes)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


class ResNet20(torch.nn.Module):
    def __init__(self):
        super().__init__()
        widths = [16] * 4 + [32] * 3 + [64] * 3
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.blocks = torch.nn.Sequential(
            *[Block(a, b) for a, b in zip(widths, widths[1:])])
        self.fc = torch.nn.Linear(64, 10)

    def forward(self, x):
        y = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(y.mean(dim=(2, 3)))


# name: network, side of the picture, classes, name for train
NETWORKS = {
    "resnet20": (ResNet20, 32, 10, "resnet20-cifar"),
    "resnet50": (torchvision.models.resnet50, 224, 1000, "resnet50"),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, 224, 1000,
                     "mobilenet_v2"),
    "efficientnet_b0": (torchvision.models.efficientnet_b0, 224, 1000,
                        "efficientnet_b0"),
}


# ---- PyTorch ---------------------------------------------------------------

class Rival:
    def __init__(self, name, batch, mode):
        make, side, classes, _ = NETWORKS[name]
        torch.manual_seed(1)
        self.net = make().cuda().to(memory_format=torch.channels_last)
        self.x = torch.randn(batch, 3, side, side, device="cuda").to(
            memory_format=torch.channels_last)
        self.y = torch.randint(classes, (batch,), device="cuda")
        self.sgd = torch.optim.SGD(self.net.parameters(), 0.01, 0.9,
                                   weight_decay=1e-4, fused=True)
        self.run = self.net
        if mode == "compile":
            self.run = torch.compile(self.net)
        if mode == "auto":
            self.run = torch.compile(self.net, mode="max-autotune")
        self.graph = None
        if mode == "graph":
            self.record()

    def step(self):
        self.sgd.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(self.run(self.x), self.y)
        loss.backward()
        self.sgd.step()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.sgd.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph

    def once(self):
        if self.graph:
            self.graph.replay()
        else:
            self.step()


def time_rival(name, batch, mode):
    torch.cuda.empty_cache()
    rival = Rival(name, batch, mode)
    for _ in range(WARMUP):
        rival.once()
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        rival.once()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(
        a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


# ---- train -----------------------------------------------------------------

def make_data(name, folder):
    """Random pictures in a form that train reads; nothing is learned."""
    _, side, classes, _ = NETWORKS[name]
    random = numpy.random.default_rng(1)
    where = os.path.join(folder, name)
    if side == 32:
        os.makedirs(where, exist_ok=True)
        records = random.integers(0, 256, (2048, 3073), dtype=numpy.uint8)
        records[:, 0] %= classes
        records.tofile(os.path.join(where, "data_batch_1.bin"))
        return where
    for i in range(classes):
        one = os.path.join(where, "train", f"{i:04d}")
        os.makedirs(one, exist_ok=True)
        picture = random.integers(0, 256, (side, side, 3), dtype=numpy.uint8)
        Image.fromarray(picture).save(os.path.join(one, "a.jpg"))
    return where


def time_ours(args, name, batch, folder):
    """Milliseconds of a step, and all that was printed."""
    arch = NETWORKS[name][3]
    done = subprocess.run(
        [args.train, "--arch=" + arch, "--data=" + make_data(name, folder),
         f"-b{batch}", "--precision=bf16", "--optimizer=momentum", "--lr=0.01",
         "--weight-decay=1e-4", "--device=cuda:0", "--time-layers"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    found = re.search(r"whole step.*: ([0-9.]+) ms \(", done.stdout)
    return float(found.group(1)), done.stdout


# ---- the table -------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--cases",
                        default="resnet20:128,resnet20:512,resnet50:256")
    parser.add_argument("--rivals", default="eager,graph,compile,auto")
    parser.add_argument("--layers")
    parser.add_argument("--markdown")
    args = parser.parse_args()
    rivals = [r for r in args.rivals.split(",") if r]
    lines = ["| network | batch | train | " + " | ".join(rivals) +
             " | best rival / train |", "|" + "---|" * (len(rivals) + 4)]

    print(torch.cuda.get_device_name(0), "PyTorch", torch.__version__)
    for case in args.cases.split(","):
        name, batch = case.split(":")
        with tempfile.TemporaryDirectory() as folder:
            ours, text = time_ours(args, name, int(batch), folder)
        if args.layers:
            with open(os.path.join(args.layers, f"{name}-{batch}.txt"),
                      "w") as f:
                f.write(text)
        times = []
        for mode in rivals:
            try:
                times.append(time_rival(name, int(batch), mode))
            except Exception as e:  # a rival that fails is shown as such
                print(case, mode, type(e).__name__, e, flush=True)
                times.append(float("nan"))
            print(f"{case} {mode}: {times[-1]:.3f} ms", flush=True)
        best = min((t for t in times if t == t), default=float("nan"))
        lines.append(
            f"| {name} | {batch} | {ours:.3f} | " +
            " | ".join("failed" if t != t else f"{t:.3f}" for t in times) +
            f" | {best / ours:.2f} |")
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
