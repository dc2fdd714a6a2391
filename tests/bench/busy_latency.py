#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latencies on a machine that is busy: infer beside onnxruntime.

    busy_latency.py BUILD FILE.onnx... [--busy=2] [--threads=2] [--rounds=6] [--seconds=10]

Every file has one input of a stated shape.  --busy processes count without end
meanwhile.  infer, onnxruntime and onnxruntime whose idle threads do not spin
take turns of that many seconds; the table has percentiles of all runs of a
file, in milliseconds.  Of infer, whose command states percentiles of one turn,
it has the median of its turns' p50 and p99, and the highest of their p99.9.
The rivals' turns are treated alike.  Needs onnx, onnxruntime and NumPy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

PERCENTILES = (50, 99, 99.9)
SPIN = "while True: pass"


def infer(a, model):
    out = subprocess.run(
        [a.build + "/infer", "-m", model, "--bench", "--json",
         "--threads=%d" % a.threads, "--duration=%gs" % a.seconds,
         "--percentile=" + ",".join("%g" % p for p in PERCENTILES)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True).stdout
    found = json.loads(out)["percentile_ms"]
    return [found["%g" % p] for p in PERCENTILES]


def onnxruntime_of(a, path, name, x, spin):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    options.add_session_config_entry("session.intra_op.allow_spinning",
                                     "1" if spin else "0")
    session = onnxruntime.InferenceSession(path, options,
                                           providers=["CPUExecutionProvider"])

    def turn():
        took = []
        end = time.perf_counter() + a.seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            session.run(None, {name: x})
            took.append(1e3 * (time.perf_counter() - start))
        return list(np.percentile(took, PERCENTILES))
    return turn


def measure(a, path, folder):
    """The percentiles of each, a list a turn."""
    model = os.path.join(folder, "model.infer")
    subprocess.run([a.build + "/wconv", path, "-o", model, "-q"], check=True)
    first = onnx.load(path, load_external_data=False).graph.input[0]
    x = np.random.default_rng(0).standard_normal(
        [d.dim_value for d in first.type.tensor_type.shape.dim])
    x = x.astype(np.float32)
    run = {"infer": lambda: infer(a, model),
           "onnxruntime": onnxruntime_of(a, path, first.name, x, True),
           "onnxruntime, no spinning": onnxruntime_of(a, path, first.name, x,
                                                      False)}
    turns = {who: [] for who in run}
    for _ in range(a.rounds):
        for who in run:
            turns[who].append(run[who]())
    return turns


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build")
    p.add_argument("files", nargs="+")
    p.add_argument("--busy", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--seconds", type=float, default=10)
    a = p.parse_args()
    others = [subprocess.Popen([sys.executable, "-c", SPIN])
              for _ in range(a.busy)]
    try:
        print("| network | by | p50 | p99 | p99.9 |\n|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            for path in a.files:
                for who, t in measure(a, path, folder).items():
                    p50, p99, last = zip(*t)
                    print("| %s | %s | %.2f | %.2f | %.2f |" % (
                        os.path.basename(path).removesuffix(".onnx"), who,
                        statistics.median(p50), statistics.median(p99),
                        max(last)), flush=True)
    finally:
        for o in others:
            o.kill()


if __name__ == "__main__":
    main()
