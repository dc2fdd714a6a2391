#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every trained model on a GPU, in every precision and through every backend.

    gpu.py run DIR [--weights=FILE] [--jobs=N] [--gpus=0,1,..]
        [--backends=cuda,cudnn] [--precisions=fp32,tf32,fp16,bf16]
        [options of tests/conformance/weights]
    gpu.py sum DIR...

`run` gives each model in each precision through each backend a process of
tests/conformance/weights, which reads TEST_DATA, and keeps what it printed
below DIR.  `sum` prints Markdown tables of one or several such folders: of
networks that classify a data set, how many are right and how far the outputs are
from the reference, relative to the largest; of the others how far, and behind it
how far the reference is that only rounds weights and activations; and what ran
on another backend's kernels.

Exit: 0 all models do what they must, 1 usage, 3 one does not.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

LINE = re.compile(
    r"(ok|FAILED) +(\S+) +(-?\d+) right \((-?\d+)\), (\S+) as read,"
    r" (\S+) reference, (\S+) backend; others: (.*)")
WAY = r"\S+ reference, (\S+) backend(?:, (\S+) rounding)?"
ARRAYS = re.compile(
    rf"(ok|FAILED) +(\S+?)(?:, (\S+))?: as read {WAY}; optimised {WAY};"
    r" others: (.*)")


# ---- running ---------------------------------------------------------


def run_one(o, number, path, backend, precision):
    env = dict(os.environ)
    if o["gpus"]:
        env["CUDA_VISIBLE_DEVICES"] = o["gpus"][number % len(o["gpus"])]
    done = subprocess.run(
        [o["weights"], "--device=cuda", f"--backend={backend}",
         f"--precision={precision}", f"--match={path}"] + o["options"],
        text=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    name = f"{backend}-{precision}-{number:03}"
    with open(os.path.join(o["dir"], name), "w") as f:
        f.write(done.stdout)
    return done.returncode


def run(o):
    os.makedirs(o["dir"], exist_ok=True)
    paths = subprocess.run([o["weights"], "--list"], text=True, check=True,
                           stdout=subprocess.PIPE).stdout.split()
    work = [(p, b, q) for b in o["backends"] for q in o["precisions"]
            for p in paths]
    with concurrent.futures.ThreadPoolExecutor(o["jobs"]) as pool:
        codes = list(pool.map(lambda k: run_one(o, k, *work[k]),
                              range(len(work))))
    return 3 if any(codes) else 0


# ---- summing ---------------------------------------------------------


class Sum:
    """What the files of some folders say."""

    def __init__(self, folders):
        self.pictures = collections.defaultdict(dict)
        self.arrays = collections.defaultdict(dict)
        self.expected = {}
        self.others = collections.defaultdict(set)
        self.failures = []
        self.columns = []
        for folder in folders:
            for name in sorted(os.listdir(folder)):
                column = tuple(name.split("-")[:2])
                if column not in self.columns:
                    self.columns.append(column)
                with open(os.path.join(folder, name)) as f:
                    for line in f:
                        self.take(column, line.rstrip())
        order = ["fp32", "tf32", "fp16", "bf16"]
        self.columns.sort(key=lambda c: (c[0], order.index(c[1])))

    def take(self, column, line):
        if line.startswith("FAILED"):
            self.failures.append(f"{column[0]} {column[1]}: {line}")
        if match := LINE.match(line):
            good, model, right, want, _, _, worst, others = match.groups()
            self.expected[model] = want
            cell, table = f"{right} ({worst})", self.pictures
        elif match := ARRAYS.match(line):
            good, model, what, _, _, worst, rounding, others = match.groups()
            if what:
                model += ", " + os.path.basename(what)
            cell = f"{worst} ({rounding})" if rounding else worst
            table = self.arrays
        else:
            return
        table[model][column] = cell + ("" if good == "ok" else " **wrong**")
        if others != "none":
            self.others[model].add(f"{column[0]}: {others}")

    def missing(self):
        return sum(c not in cells for table in (self.pictures, self.arrays)
                   for cells in table.values() for c in self.columns)


def print_table(sums, table, first):
    if not table:
        return
    print("| model | " + first +
          " | ".join(f"{b} {p}" for b, p in sums.columns) + " |")
    print("|---" * (len(sums.columns) + 1 + bool(first)) + "|")
    for model, cells in table.items():
        want = f"{sums.expected[model]} | " if first else ""
        print(f"| {model} | {want}" +
              " | ".join(cells.get(c, "not run") for c in sums.columns) + " |")
    print()


def print_sum(folders):
    sums = Sum(folders)
    print_table(sums, sums.pictures, "recorded | ")
    print_table(sums, sums.arrays, "")
    print("| model | steps that another backend's kernels ran |\n|---|---|")
    for model, words in sums.others.items():
        print(f"| {model} | {'; '.join(sorted(words))} |")
    models = len(sums.pictures) + len(sums.arrays)
    print(f"\n{models} models, {len(sums.columns)} columns, {sums.missing()} not"
          f" run, {len(sums.failures)} failed")
    for line in sums.failures:
        print(f"\n    {line}")
    return 3 if sums.failures or sums.missing() or not models else 0


# ---- command line ----------------------------------------------------


def main(argv):
    o = {"weights": "tests/conformance/weights", "jobs": os.cpu_count(),
         "gpus": [], "backends": ["cuda", "cudnn"], "options": [],
         "precisions": ["fp32", "tf32", "fp16", "bf16"], "dir": None}
    for a in argv[2:]:
        key, _, value = a[2:].partition("=")
        if not a.startswith("--"):
            o["dir"] = a
        elif key == "jobs":
            o["jobs"] = int(value)
        elif key in ("gpus", "backends", "precisions"):
            o[key] = value.split(",")
        elif key == "weights":
            o["weights"] = value
        else:
            o["options"].append(a)
    if len(argv) > 2 and argv[1] == "run" and o["dir"]:
        return run(o)
    if len(argv) > 2 and argv[1] == "sum":
        return print_sum([a for a in argv[2:] if not a.startswith("--")])
    sys.stderr.write(__doc__)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
