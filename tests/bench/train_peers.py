#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train beside PyTorch on one GPU, in one run: a whole training step, bfloat16
products, channels last, median milliseconds by the GPU's clock.

    train_peers.py --train=PATH [--cases=resnet20:128,resnet20:512,resnet50:256]
                   [--rivals=eager,graph,compile:256+128,auto] [--layers=DIR]
                   [--at-once=N] [--rival-limit=SECONDS] [--budget=SECONDS]
                   [--markdown=FILE] [--json=FILE]

A step is the way forward, the loss, the way back and SGD with momentum and
weight decay, on a batch of random pictures that lies on the GPU.  PyTorch's
modes are those of torch_train_rival.py, all with automatic mixed precision to
bfloat16 and the fused optimizer; each line has a process of its own, of which
--at-once compile together, and while one is timed the others are stopped.  train
runs what --time-layers prints: recorded steps.  --layers keeps its times of
every launch.  A mode may be asked for some of the batches only.  U-Net is trained as a classifier by the mean of its output's
pixels, from a file of ONNX.
"""
import argparse
import json
import os
import re
import signal
import tempfile
import time

BEGIN = time.perf_counter()  # loading PyTorch counts

import numpy
import torch
from PIL import Image

import rivals
import torch_networks

RIVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "torch_train_rival.py")
# Names of train, where they differ.
ARCHS = {"resnet20": "resnet20-cifar"}


# ---- train -----------------------------------------------------------------

def make_data(size, classes, folder):
    """Random pictures in a form that train reads; nothing is learned."""
    side = size[1]
    random = numpy.random.default_rng(1)
    where = os.path.join(folder, f"{side}-{classes}")
    if os.path.isdir(where):
        return where
    os.makedirs(where)
    if side == 32:
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


def source(name, net, size, folder):
    """What names the network to train: a built-in, or a file."""
    if name != "unet":
        return "--arch=" + ARCHS.get(name, name)
    path = os.path.join(folder, name + ".onnx")
    if not os.path.exists(path):
        torch.onnx.export(net, (torch.randn(2, *size),), path, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, input_names=["x"],
                          dynamic_axes={"x": {0: "batch"}})
    return "--init-from=" + path


def train_command(args, row, folder):
    net, size, classes = torch_networks.for_training(row["network"])
    return [args.train, source(row["network"], net, size, folder),
            "--data=" + make_data(size, classes, folder),
            f"-b{row['batch']}", "--precision=bf16", "--optimizer=momentum",
            "--lr=0.01", "--weight-decay=1e-4", "--device=cuda:0",
            "--time-layers",
            "--tune-cache=" + os.path.join(folder, "tuning.json")]


def take_time(args):
    def take(row, code, out, err):
        found = re.search(r"whole step.*: ([0-9.]+) ms \(", out)
        if args.layers:
            path = os.path.join(args.layers,
                                f"{row['network']}-{row['batch']}.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(out)
        if code or not found:
            print(f"{row['network']} batch {row['batch']} train: "
                  f"{err.strip() or code}"[:600], flush=True)
            return
        row["train"] = float(found.group(1))
        print(f"{time.perf_counter() - BEGIN:.0f} s: {row['network']} batch "
              f"{row['batch']} train: {row['train']} ms", flush=True)
        save(args)
    return take


# ---- the table -------------------------------------------------------------

RESULTS = []


def save(args):
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(RESULTS, file, indent=1)


def table(args):
    modes = [mode for mode, _ in args.rivals]
    head = ["network", "batch", "train", *modes, "best rival / train"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in RESULTS:
        found = [row["rivals"].get(mode, {"word": "-"}) for mode in modes]
        best = min((f["ms"] for f in found if "ms" in f), default=None)
        cells = [row["network"], str(row["batch"]),
                 f"{row['train']:.3f}" if row["train"] else "-"]
        cells += [f"{f['ms']:.3f}" if "ms" in f else f.get("word", "failed")
                  for f in found]
        cells.append(f"{best / row['train']:.2f}"
                     if best and row["train"] else "-")
        lines.append("| " + " | ".join(cells) + " |")
    print("\n".join(lines), flush=True)
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--cases",
                        default="resnet20:128,resnet20:512,resnet50:256")
    parser.add_argument("--rivals", type=rivals.with_batches,
                        default="eager,graph,compile,auto")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--rival-limit", type=float, default=600)
    parser.add_argument("--budget", type=float, default=1e9,
                        help="seconds after which rivals are given up")
    parser.add_argument("--layers")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    return parser.parse_args()


def stop(*_):
    """A signal ends the processes of the rivals too."""
    raise SystemExit(143)


def main():
    args = parse()
    signal.signal(signal.SIGTERM, stop)
    for case in args.cases.split(","):
        name, batch = case.split(":")
        RESULTS.append({"network": name, "batch": int(batch), "train": None,
                        "rivals": {}})
    threads = max(2, (os.cpu_count() or 2) // args.at_once)
    with tempfile.TemporaryDirectory() as folder:
        turn = os.path.join(folder, "turn")

        def make(row):
            errors = f"{row['network']}-{row['batch']}.txt"
            return rivals.Rival(row, [RIVAL, row["network"], turn],
                                args.rival_limit,
                                os.path.join(folder, errors),
                                {"TORCHINDUCTOR_COMPILE_THREADS":
                                 str(threads)})

        ours = rivals.Ours(turn, take_time(args), 90)
        theirs = rivals.Rivals(make, args.at_once, BEGIN + args.budget,
                               lambda: save(args), ours)
        for mode, batches in args.rivals:
            for row in RESULTS:
                if not batches or row["batch"] in batches:
                    theirs.add(row, mode)
        theirs.begin()
        for row in RESULTS:
            ours.add(row, train_command(args, row, folder))
        theirs.all()
    table(args)


if __name__ == "__main__":
    main()
