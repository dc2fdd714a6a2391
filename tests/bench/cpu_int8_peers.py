#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times infer's integers of 8 bits on a CPU beside its floats and the rivals' integers.

    cpu_int8_peers.py BUILD FILE.onnx... [--threads=1] [--rounds=5] [--seconds=0.35]
                      [--processor] [--samples=4]

Every file has one input of pictures of a stated shape and floats.  Calibration is
with SAMPLES pictures of smooth noise: wconv --quantize=int8 --calibrate writes ours;
quantize_static() of onnxruntime (QDQ, per channel, activations U8, weights I8) the
file that onnxruntime and OpenVINO run.  All take turns as in cpu_onnx_peers.py; the
table has the least milliseconds.  Needs what that script needs.
"""
import argparse
import math
import os
import subprocess
import tempfile

import numpy as np
import onnx
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat,
                                      QuantType, quantize_static)
from onnxruntime.quantization.shape_inference import quant_pre_process

import cpu_onnx_peers as peers


def pictures(shape, n):
    """Smooth noise: sums of noise of 4, 16 and all pixels a side."""
    rng = np.random.default_rng(0)
    out = []
    for _ in range(n):
        x = np.zeros(shape[1:], np.float32)
        for side in (4, 16, shape[2]):
            small = rng.standard_normal((shape[1], side, side))
            rows = np.arange(shape[2]) * side // shape[2]
            columns = np.arange(shape[3]) * side // shape[3]
            x += small[:, rows][:, :, columns].astype(np.float32)
        out.append(x / 2)
    return np.stack(out)


class Reader(CalibrationDataReader):
    def __init__(self, name, x):
        self.samples = iter([{name: v[None]} for v in x])

    def get_next(self):
        return next(self.samples, None)


def compare(a, path, folder):
    """The least milliseconds of each."""
    first = onnx.load(path, load_external_data=False).graph.input[0]
    shape = [d.dim_value for d in first.type.tensor_type.shape.dim]
    x = pictures(shape, a.samples)
    np.savez(folder + "/cal.npz", **{first.name: x})
    for name, more in (("f32", []), ("i8", ["--quantize=int8",
                                            "--calibrate=" + folder +
                                            "/cal.npz"])):
        subprocess.run([a.build + "/wconv", path, "-q", "-o",
                        folder + "/%s.infer" % name, *more], check=True)
    quant_pre_process(path, folder + "/ready.onnx", skip_symbolic_shape=True)
    quantize_static(folder + "/ready.onnx", folder + "/qdq.onnx",
                    Reader(first.name, x), quant_format=QuantFormat.QDQ,
                    per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8)
    run = {"fp32": lambda: peers.infer(a, folder + "/f32.infer"),
           "int8": lambda: peers.infer(a, folder + "/i8.infer")}
    run.update(peers.rivals(a, folder + "/qdq.onnx", first.name, x[:1]))
    least = dict.fromkeys(run, math.inf)
    for _ in range(a.rounds):
        for who in run:
            least[who] = min(least[who], run[who]())
    return least


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build")
    p.add_argument("files", nargs="+")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.35)
    p.add_argument("--samples", type=int, default=4)
    p.add_argument("--processor", action="store_true")
    a = p.parse_args()
    print("| network | infer, fp32 | infer, int8 | onnxruntime, int8 | "
          "OpenVINO, int8 | fp32 / int8 | better rival / infer |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        a.clock = peers.build_clock(folder) if a.processor else None
        for path in a.files:
            t = compare(a, path, folder)
            print("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |" % (
                os.path.basename(path).removesuffix(".onnx"), t["fp32"],
                t["int8"], t["onnxruntime"], t["OpenVINO"],
                t["fp32"] / t["int8"],
                min(t["onnxruntime"], t["OpenVINO"]) / t["int8"]), flush=True)


if __name__ == "__main__":
    main()
