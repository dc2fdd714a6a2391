#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of training on a CPU: train beside PyTorch, in one run.

    train_cpu_peers.py --train=PATH [--networks=lenet5,resnet20-cifar]
                       [--threads=1,2] [--batch=128] [--rounds=5] [--steps=10]
                       [--modes=plain,channels_last,compile] [--markdown=FILE]

A step is forward, loss, backward and SGD with momentum, single precision, on
one batch that is in memory.  train's time is the median whole step that
--time-layers prints.
PyTorch's modes: plain (eager, channels first), channels_last (eager) and
compile (torch.compile, channels last).  Both sides take turns, `rounds` times;
each figure is the median over the rounds, its spread the range of them.
Pictures and labels are noise, written as files that train reads, so that
nothing has to be fetched.
"""
import argparse
import gzip
import os
import re
import statistics
import struct
import subprocess
import tempfile
import time

import numpy
import torch
from torch import nn
from torch.nn import functional


class LeNet5(nn.Module):
    """As `train --arch=lenet5`."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Block(nn.Module):
    """A basic block with the shortcut of option A: every second pixel, and
    zeros for the new channels."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.extra = (outer - inner) // 2 if outer != inner else 0

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.extra:
            x = functional.pad(x[:, :, ::2, ::2],
                               (0, 0, 0, 0, self.extra, self.extra))
        return functional.relu(y + x)


class ResNet20(nn.Module):
    """As `train --arch=resnet20-cifar`."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks, inner = [], 16
        for outer in [16, 32, 64]:
            for i in range(3):
                blocks.append(Block(inner, outer,
                                    2 if i == 0 and outer > 16 else 1))
                inner = outer
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(functional.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean((2, 3)))


NETWORKS = {"lenet5": (LeNet5, (1, 28, 28)),
            "resnet20-cifar": (ResNet20, (3, 32, 32))}


def write_idx(folder, shape):
    """MNIST's files, of noise."""
    rng = numpy.random.default_rng(1)
    for name, count in [("train", 1024), ("t10k", 256)]:
        images = rng.integers(0, 256, (count,) + shape[1:], numpy.uint8)
        labels = rng.integers(0, 10, count, numpy.uint8)
        head = struct.pack(">4I", 0x803, count, *shape[1:])
        with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz", "wb") as f:
            f.write(head + images.tobytes())
        with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz", "wb") as f:
            f.write(struct.pack(">2I", 0x801, count) + labels.tobytes())


def write_cifar(folder):
    """CIFAR-10's binary files, of noise."""
    rng = numpy.random.default_rng(1)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for name in names:
        rows = rng.integers(0, 256, (512, 3073), numpy.uint8)
        rows[:, 0] %= 10
        rows.tofile(f"{folder}/{name}")


def run_train(args, network, threads, folder):
    """Milliseconds of a step, as --time-layers prints them."""
    out = subprocess.run(
        [args.train, "--arch=" + network, "--data=" + folder,
         f"--batch={args.batch}", f"--threads={threads}", "--time-layers",
         "--optimizer=momentum", "--output=" + folder + "/w.safetensors"],
        check=True, capture_output=True, text=True).stdout
    return float(re.search(r"whole step, median of \d+: ([0-9.]+) ms",
                           out).group(1))


class Rival:
    """One network in one of PyTorch's modes."""

    def __init__(self, args, network, mode):
        kind, shape = NETWORKS[network]
        torch.manual_seed(1)
        self.steps = args.steps
        net = kind().train()
        x = torch.randn((args.batch,) + shape)
        if mode != "plain":
            net = net.to(memory_format=torch.channels_last)
            x = x.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
        self.net = torch.compile(net) if mode == "compile" else net
        self.x, self.label = x, torch.randint(0, 10, (args.batch,))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.net(self.x), self.label)
        loss.backward()
        self.optimizer.step()

    def run(self):
        """Median milliseconds of a step."""
        times = []
        for i in range(3 + self.steps):
            start = time.perf_counter()
            self.step()
            if i >= 3:
                times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)


def show(times):
    return (f"{statistics.median(times):.2f} "
            f"({min(times):.2f} to {max(times):.2f})")


def compare(args, network, threads, folder):
    """A row of the table."""
    torch.set_num_threads(threads)
    rivals = {m: Rival(args, network, m) for m in args.modes.split(",")}
    times = {m: [] for m in ["train", *rivals]}
    for _ in range(args.rounds):
        times["train"].append(run_train(args, network, threads, folder))
        for mode, rival in rivals.items():
            times[mode].append(rival.run())
    best = min(statistics.median(times[m]) for m in rivals)
    return [network, str(threads)] + [show(t) for t in times.values()] + [
        f"{best / statistics.median(times['train']):.2f}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--networks", default="lenet5,resnet20-cifar")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--modes", default="plain,channels_last,compile")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--markdown")
    args = parser.parse_args()
    lines = []

    def put(cells):
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)

    put(["network", "threads", "train, ms"] +
        [f"PyTorch {m}, ms" for m in args.modes.split(",")] +
        ["best PyTorch / train"])
    put(["---"] * (4 + len(args.modes.split(","))))
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks.split(","):
            place = os.path.join(folder, network)
            os.mkdir(place)
            if network == "lenet5":
                write_idx(place, NETWORKS[network][1])
            else:
                write_cifar(place)
            for threads in args.threads.split(","):
                put(compare(args, network, int(threads), place))
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
