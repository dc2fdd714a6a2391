#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every trained model on a GPU, in every precision and through every backend.

    gpu.py run DIR [--weights=FILE] [--jobs=N] [--gpus=0,1,..]
        [--backends=cuda,cudnn] [--precisions=fp32,tf32,fp16,bf16]
        [options of tests/conformance/weights]
    gpu.py sum DIR...

`run` gives each model in each precision through each backend a process of
tests/conformance/weights, which reads TEST_DATA, and keeps what it printed
below DIR.  `sum` prints one Markdown table of one or several such folders: how
many of the data set are right, for networks that classify one, how far the
outputs are from the reference, relative to the largest, and what ran on another
backend's kernels.

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
ARRAYS = re.compile(
    r"(ok|FAILED) +(\S+?)(?:, (\S+))?: \S+ reference, \S+ backend as read;"
    r" \S+, (\S+) optimised; others: (.*)")


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


def print_sum(folders):
    table = collections.defaultdict(dict)
    expected, others, failures = {}, collections.defaultdict(set), []
    columns = []
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            backend, precision, _ = name.split("-")
            with open(os.path.join(folder, name)) as f:
                text = f.read()
            for line in text.splitlines():
                if line.startswith("FAILED"):
                    failures.append(f"{backend} {precision}: {line}")
                match = LINE.match(line) or ARRAYS.match(line)
                if not match:
                    continue
                if match.re is LINE:
                    good, model, right, want, _, _, worst, other = \
                        match.groups()
                else:
                    good, model, what, worst, other = match.groups()
                    right = want = ""
                    if what:
                        model += ", " + os.path.basename(what)
                column = (backend, precision)
                if column not in columns:
                    columns.append(column)
                expected[model] = want
                mark = "" if good == "ok" else " **wrong**"
                table[model][column] = f"{right} ({worst}){mark}".strip()
                if other != "none":
                    others[model].add(f"{backend}: {other}")
    order = ["fp32", "tf32", "fp16", "bf16"]
    columns.sort(key=lambda c: (c[0], order.index(c[1])))
    print("| model | recorded | " +
          " | ".join(f"{b} {p}" for b, p in columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for model, cells in table.items():
        print(f"| {model} | {expected[model]} | " +
              " | ".join(cells.get(c, "not run") for c in columns) + " |")
    print("\n| model | steps that another backend's kernels ran |\n|---|---|")
    for model, words in others.items():
        print(f"| {model} | {'; '.join(sorted(words))} |")
    missing = sum(c not in cells for cells in table.values() for c in columns)
    print(f"\n{len(table)} models, {len(columns)} columns, {missing} not run,"
          f" {len(failures)} failed")
    for line in failures:
        print(f"\n    {line}")
    return 3 if failures or missing or not table else 0


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
