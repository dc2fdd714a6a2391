#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train on 1, 2, 4 ... GPUs of one host: the same loss curve with the same
whole batch, and pictures a second with the same batch a GPU.

    train_gpus.py --train=PATH [--gpus=1,2,4]
                  [--curve=NETWORK:DIR:BATCH:STEPS[:EXTRA,...]] ...
                  [--scale=NETWORK:DIR:BATCH:STEPS[:EXTRA,...]] ...
                  [--csv=FILE] [--markdown=FILE]

--curve: BATCH is that of all GPUs.  --scale: BATCH is that of each GPU; the
rate is the median of the run's log behind its first half, as pictures reach
the network: decoded, augmented, copied.  EXTRA are options of train without
their dashes, which take the place of the usual ones.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile

USUAL = ["optimizer=nesterov", "lr=0.05", "lr-policy=onecycle", "seed=1",
         "precision=bf16", "augment=flip,crop"]


def options(extra):
    words = {w.split("=")[0]: w for w in USUAL}
    words.update({w.split("=")[0]: w for w in extra})
    return ["--" + w for w in words.values()]


def run(args, word, gpus, scale, folder):
    name, data, batch, steps, *extra = word.split(":")
    extra = [w for e in extra for w in e.split("+") if w]
    log = os.path.join(folder, "log.csv")
    size = int(batch) * (gpus if scale else 1)
    words = [args.train, "--arch=" + name, "--data=" + data, "-b%d" % size,
             "--steps=" + steps, "--gpus=%d" % gpus, "--log=" + log, "-q",
             "--snapshot=1000000", "-o" + os.path.join(folder, "o")]
    done = subprocess.run(words + options(extra), capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit(" ".join(words) + "\n" + done.stdout + done.stderr)
    with open(log) as f:
        return [r for r in csv.DictReader(f) if r["loss"]]


def losses(rows):
    return {int(r["step"]): float(r["loss"]) for r in rows}


def curve(args, word, folder):
    name, _, batch, *_ = word.split(":")
    course = {g: losses(run(args, word, g, False, folder)) for g in args.gpus}
    first = course[args.gpus[0]]
    steps = sorted(first)
    shown = [steps[i * (len(steps) - 1) // 9] for i in range(10)]
    lines = ["", "%s, batch %s, loss at step" % (name, batch), "",
             "| GPUs | " + " | ".join(str(s) for s in shown) +
             " | mean of all | largest difference |",
             "|---" * (len(shown) + 3) + "|"]
    for g in args.gpus:
        apart = max(abs(course[g][s] - first[s]) for s in steps)
        lines.append("| %d | " % g + " | ".join("%.4f" % course[g][s]
                                                for s in shown) +
                     " | %.4f | %.2g |" % (
                         statistics.mean(course[g].values()), apart))
    if args.csv:
        with open(args.csv, "a") as f:
            for g in args.gpus:
                for s in steps:
                    f.write("%s,%s,%d,%d,%.7g\n" % (name, batch, g, s,
                                                    course[g][s]))
    return lines


def scale(args, word, folder):
    name, _, batch, *_ = word.split(":")
    lines = ["", "%s, batch %s a GPU" % (name, batch), "",
             "| GPUs | images/s | times one GPU |", "|---|---|---|"]
    one = None
    for g in args.gpus:
        rows = run(args, word, g, True, folder)
        rate = statistics.median(float(r["images_per_second"])
                                 for r in rows[len(rows) // 2:])
        one = one or rate
        lines.append("| %d | %.0f | %.2f |" % (g, rate, rate / one))
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train", required=True)
    p.add_argument("--gpus", default="1,2,4")
    p.add_argument("--curve", action="append", default=[])
    p.add_argument("--scale", action="append", default=[])
    p.add_argument("--csv")
    p.add_argument("--markdown")
    args = p.parse_args()
    args.gpus = [int(g) for g in args.gpus.split(",")]
    text = []
    if args.csv:
        with open(args.csv, "w") as f:
            f.write("network,batch,gpus,step,loss\n")
    with tempfile.TemporaryDirectory() as folder:
        for what, words in ((curve, args.curve), (scale, args.scale)):
            for word in words:
                lines = what(args, word, folder)
                text += lines
                print("\n".join(lines), flush=True)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
