#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From train through wconv to infer: the accuracy of a network as train
evaluates it and as infer runs it folded, on every device and precision.

    train_to_infer.py --train=PATH --wconv=PATH --infer=PATH --mnist=DIR
                      [--networks=alexnet-mnist:3,vgg11-mnist:3,lenet5:8]
                      [--device=cuda] [--precision=bf16]
                      [--runs=cpu:fp32,cuda:fp32,cuda:fp16] [--markdown=FILE]

A network is a name of `train --list-archs` and epochs.  infer gets MNIST's test
pictures as arrays of 2,000, prepared as the architectures state it.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile

import numpy

PART = 2000
MEAN, STD = numpy.float32(0.1307), numpy.float32(0.3081)


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(words) + "\n" + done.stdout + done.stderr)
    return done.stdout


def idx(path):
    opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else \
        open(path, "rb")
    with opened as f:
        raw = f.read()
    shape = numpy.frombuffer(raw, ">i4", raw[3], 4)
    return numpy.frombuffer(raw, numpy.uint8, -1, 4 + 4 * raw[3]).reshape(shape)


def right(args, model, device, precision, pictures, labels, folder):
    """How many infer has right, PART at a time."""
    out = os.path.join(folder, "scores.npy")
    part = os.path.join(folder, "part.npy")
    hits = 0
    for i in range(0, len(labels), PART):
        numpy.save(part, pictures[i:i + PART])
        call([args.infer, "-m", model, "--device=" + device,
              "--precision=" + precision, "--load-inputs=" + part,
              "--export-output=" + out, "-q"] +
             ["--threads=%d" % args.threads] *
             (device == "cpu" and args.threads > 0))
        scores, wanted = numpy.load(out), labels[i:i + PART]
        assert scores.shape == (len(wanted), 10), scores.shape
        hits += int((scores.argmax(1) == wanted).sum())
    return hits


def main():
    p = argparse.ArgumentParser()
    for tool in ("train", "wconv", "infer", "mnist"):
        p.add_argument("--" + tool, required=True)
    p.add_argument("--networks",
                   default="alexnet-mnist:3,vgg11-mnist:3,lenet5:8")
    p.add_argument("--device", default="cuda")
    p.add_argument("--precision", default="bf16")
    p.add_argument("--runs", default="cpu:fp32,cuda:fp32,cuda:bf16,cuda:fp16")
    p.add_argument("--threads", type=int, default=0, help="of a CPU (all)")
    p.add_argument("--markdown")
    args = p.parse_args()
    runs = [word.split(":") for word in args.runs.split(",")]
    pixels = idx(os.path.join(args.mnist, "t10k-images-idx3-ubyte"))
    labels = idx(os.path.join(args.mnist, "t10k-labels-idx1-ubyte"))
    lines = ["| network | epochs | trained | train, " + args.precision +
             " | train, fp32 | " +
             " | ".join("infer, %s %s" % tuple(r) for r in runs) + " |",
             "|---" * (5 + len(runs)) + "|"]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        x = pixels[:, None].astype(numpy.float32) / numpy.float32(255)
        pictures = (x - MEAN) / STD
        for word in args.networks.split(","):
            name, epochs = word.split(":")
            out = os.path.join(folder, name + ".safetensors")
            model = os.path.join(folder, name + ".infer")
            common = [args.train, "--arch=" + name, "--data=" + args.mnist,
                      "--json", "--device=" + args.device]
            got = json.loads(call(common + [
                "--precision=" + args.precision, "-b128", "-o" + out,
                "--epochs=" + epochs, "--optimizer=adam", "--lr=0.001",
                "--lr-policy=onecycle", "--augment=crop:2"]))
            cells = [name, epochs, "%.1f s" % got["seconds"]]
            for precision in (args.precision, "fp32"):
                judged = json.loads(call(common + [
                    "-b500", "--precision=" + precision, "--evaluate",
                    "--init-from=" + out]))
                cells.append("%.2f%%" % (100 * judged["val_accuracy"]))
            call([args.wconv, out, "--arch=" + name, "-o", model, "-q"])
            for device, precision in runs:
                hits = right(args, model, device, precision, pictures, labels,
                             folder)
                cells.append("%.2f%%" % (100 * hits / len(labels)))
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
