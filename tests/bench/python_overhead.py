# SPDX-License-Identifier: Apache-2.0
"""What a run from Python costs more than the same run from C, at batch 1.

usage: python_overhead.py BUILD_DIR [--rounds 9] [--out results.md]

The network is one ReLU on 1x1x28x28, so that nearly all is overhead.  A round
times `infer --bench` (from C) and 3,000 runs from Python in each of the ways that
arrays can be given, one after the other; one thread.  The table has the median
over the rounds of each median, and the least.  libinfer and NumPy must be
importable; PyTorch is timed where it is."""

import argparse
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"

GRAPH = {
    "infer": 1,
    "name": "relu",
    "inputs": [{"name": "x", "dtype": "F32", "shape": [1, 1, 28, 28]}],
    "nodes": [
        {"name": "relu", "op": "unary", "in": ["x"], "out": ["y"], "attr": {"kind": "relu"}}
    ],
    "outputs": ["y"],
}
RUNS = 3000


def make_model(build, folder):
    """The model file; its weights are a safetensors file of no tensors."""
    arch, weights = f"{folder}/relu.json", f"{folder}/none.safetensors"
    with open(arch, "w") as f:
        json.dump(GRAPH, f)
    with open(weights, "wb") as f:
        f.write(struct.pack("<Q", 8) + b"{}      ")
    model = f"{folder}/relu.infer"
    subprocess.run(
        [f"{build}/wconv", "-q", weights, f"--arch={arch}", "-o", model], check=True
    )
    return model


def from_c(build, model):
    out = subprocess.run(
        [f"{build}/infer", "-q", "-m", model, "--bench", "--json", "--threads=1",
         "--warmup=20ms", "--duration=0.1s"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    report = json.loads(out.stdout)
    return 1e3 * report["median_ms"], 1e3 * report["min_ms"]


def timed(run):
    """Median and least of the runs, microseconds."""
    for _ in range(100):
        run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3, min(times) / 1e3


def ways(session):
    """Names and functions."""
    import numpy as np

    x = np.linspace(-1, 1, 784, dtype=np.float32).reshape(1, 1, 28, 28)
    y = np.empty_like(x)
    yield "NumPy in, new Tensor out", lambda: session.run(x)
    yield "NumPy in, NumPy out", lambda: session.run(x, out=y)
    yield "NumPy in, the session's memory out", lambda: session.run(x, lend=True)
    if not (y == np.maximum(x, 0)).all():
        raise SystemExit("the result is wrong")
    try:
        import torch
    except ImportError:
        return
    a, b = torch.from_numpy(x), torch.empty(1, 1, 28, 28)
    yield "PyTorch in, PyTorch out", lambda: session.run(a, out=b)


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--out")
    a = p.parse_args()
    import libinfer

    with tempfile.TemporaryDirectory() as folder:
        path = make_model(a.build, folder)
        session = libinfer.Session(libinfer.Model(path), threads=1)
        rows = {"infer --bench, from C": []}
        for _ in range(a.rounds):
            rows["infer --bench, from C"].append(from_c(a.build, path))
            for name, run in ways(session):
                rows.setdefault(name, []).append(timed(run))
    base = [statistics.median(r[0] for r in rows["infer --bench, from C"]),
            min(r[1] for r in rows["infer --bench, from C"])]  # fmt: skip
    lines = [
        f"Date {time.strftime('%Y-%m-%d')}; {processor()}, {os.cpu_count()} cores; "
        f"libinfer {libinfer.__version__}, Python {platform.python_version()}.",
        "",
        f"`tests/bench/python_overhead.py BUILD --rounds {a.rounds}`",
        "",
        "Microseconds a run of one ReLU on 1x1x28x28, batch 1, one thread.",
        "",
        "| | median | least | more than from C: median | least |",
        "|---|---|---|---|---|",
    ]
    for name, results in rows.items():
        median = statistics.median(r[0] for r in results)
        least = min(r[1] for r in results)
        lines.append(
            f"| {name} | {median:.2f} | {least:.2f} | "
            f"{median - base[0]:.2f} | {least - base[1]:.2f} |"
        )
    print("\n".join(lines))
    if a.out:
        with open(a.out, "w") as f:
            f.write("# Python: overhead of a run\n\n" + "\n".join(lines) + "\n")
    return 0


sys.exit(main())
