#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times infer's integers of 8 bits on a CPU beside its floats and the rivals' integers.

    cpu_int8_peers.py BUILD FILE.onnx... [--threads=1] [--rounds=5] [--seconds=0.35]
                      [--processor] [--samples=4] [--nncf] [--folder=FOLDER]
                      [--prepare]

Every file has one input of pictures of a stated shape and floats.  Calibration is
with SAMPLES pictures of smooth noise: wconv --quantize=int8 --calibrate writes ours;
quantize_static() of onnxruntime (QDQ, per channel, activations U8, weights I8) the
file that onnxruntime and OpenVINO run.  All take turns as in cpu_onnx_peers.py; the
table has the least milliseconds.  --nncf: OpenVINO runs what nncf.quantize() makes
of the network too, and the better of its two counts.  FOLDER keeps the files that
were made; --prepare only makes them.  Needs what that script needs, and nncf.
"""
import argparse
import math
import os
import subprocess
import tempfile

import numpy as np
import onnx
import openvino
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


def by_nncf(path, out, x):
    import nncf

    model = openvino.Core().read_model(path)
    data = nncf.Dataset([v[None] for v in x])
    # Smooth pictures of one value range: min and max, as quantize_static() takes.
    openvino.save_model(nncf.quantize(model, data, subset_size=len(x)), out,
                        compress_to_fp16=False)


def prepare(a, path, folder):
    """Makes the files that are not there; input name, pictures."""
    first = onnx.load(path, load_external_data=False).graph.input[0]
    shape = [d.dim_value for d in first.type.tensor_type.shape.dim]
    x = pictures(shape, a.samples)
    os.makedirs(folder, exist_ok=True)
    np.savez(folder + "/cal.npz", **{first.name: x})
    for name, more in (("f32", []), ("i8", ["--quantize=int8",
                                            "--calibrate=" + folder +
                                            "/cal.npz"])):
        out = folder + "/%s.infer" % name
        if not os.path.exists(out):
            subprocess.run([a.build + "/wconv", path, "-q", "-o", out, *more],
                           check=True)
    if not os.path.exists(folder + "/qdq.onnx"):
        quant_pre_process(path, folder + "/ready.onnx",
                          skip_symbolic_shape=True)
        quantize_static(folder + "/ready.onnx", folder + "/qdq.onnx",
                        Reader(first.name, x), quant_format=QuantFormat.QDQ,
                        per_channel=True, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8)
    if a.nncf and not os.path.exists(folder + "/nncf.xml"):
        by_nncf(path, folder + "/nncf.xml", x)
    return first.name, x


def compare(a, path, folder):
    """The least milliseconds of each."""
    name, x = prepare(a, path, folder)
    if a.prepare:
        return None
    run = {"fp32": lambda: peers.infer(a, folder + "/f32.infer"),
           "int8": lambda: peers.infer(a, folder + "/i8.infer")}
    run.update(peers.rivals(a, folder + "/qdq.onnx", name, x[:1]))
    if a.nncf:
        run["nncf"] = peers.openvino_run(a, folder + "/nncf.xml", x[:1])
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
    p.add_argument("--nncf", action="store_true")
    p.add_argument("--folder")
    p.add_argument("--prepare", action="store_true")
    a = p.parse_args()
    print("| network | infer, fp32 | infer, int8 | onnxruntime | OpenVINO | "
          "OpenVINO, nncf | fp32 / int8 | better rival / infer |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        a.clock = peers.build_clock(temporary) if a.processor else None
        for path in a.files:
            name = os.path.basename(path).removesuffix(".onnx")
            t = compare(a, path, os.path.join(a.folder or temporary, name))
            if not t:
                continue
            rivals = [t[k] for k in ("onnxruntime", "OpenVINO", "nncf") if k in t]
            print("| %s | %.2f | %.2f | %.2f | %.2f | %s | %.2f | %.2f |" % (
                name, t["fp32"], t["int8"], t["onnxruntime"], t["OpenVINO"],
                "%.2f" % t["nncf"] if "nncf" in t else "-",
                t["fp32"] / t["int8"], min(rivals) / t["int8"]), flush=True)


if __name__ == "__main__":
    main()
