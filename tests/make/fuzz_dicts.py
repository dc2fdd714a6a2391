#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a dictionary for each fuzz target.

usage: fuzz_dicts.py SOURCE-FOLDER OUT

A dictionary (OUT/TARGET.dict, libFuzzer's and AFL's syntax) holds the words that
the target's reader compares with: the short strings of its sources and tables,
and the byte sequences below that no string shows.  It is made anew for each
campaign, so that it follows the readers.
"""
import glob
import os
import re
import sys

PICKLE = [b"\x80\x02", b"\x80\x04\x95", b"}q\x00", b"(", b"ctorch._utils\n",
          b"_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n",
          b"ctorch\nFloatStorage\n", b"X\x07\x00\x00\x00storage", b"QK\x00",
          b"tq\x01R", b"\x89", b"\x88", b"NtR", b"u.", b"s.", b"\x8a\x08"]
ZIP = [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06",
       b"PK\x06\x07", b"PK\x07\x08", b"data.pkl", b"metadata.json",
       b"config.json", b"model.weights.h5", b"\x93NUMPY\x01\x00",
       b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"]
HDF5 = [b"\x89HDF\r\n\x1a\n", b"TREE", b"SNOD", b"HEAP", b"OHDR", b"OCHK",
        b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTLF", b"BTIN", b"GCOL", b"FADB",
        b"FAHD", b"EAHD", b"\xff" * 8]
NUMBERS = [b"-1", b"0", b"2147483647", b"2147483648", b"4294967296",
           b"9223372036854775807", b"-9223372036854775808", b"1e308", b"1e-320",
           b"18446744073709551616"]
PNG = [b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"acTL", b"fdAT",
       b"\xff\xd8", b"\xff\xc0\x00\x11", b"\xff\xc2", b"\xff\xc4", b"\xff\xda",
       b"\xff\xdb", b"\xff\xdd\x00\x04", b"\xff\xe1", b"Exif\0\0", b"\xff\xd9"]

# Of each target: the sources whose words count, and further tokens.
TARGETS = {
    "annotations": (["tools/infer/coco_file.c"],
                    NUMBERS + [b"bbox", b"image_id", b"category_id",
                               b"iscrowd", b"area", b"file_name", b"null"]),
    "caffe": (["weights/caffe/*", "weights/layers/*"], NUMBERS),
    "checkpoint": (["tools/train/checkpoint.c", "weights/safetensors/*"],
                   NUMBERS + [b"fc.weight", b"fc.bias"]),
    "command": (["tools/train/options*.c", "tools/cli*.c"], NUMBERS + [b"--"]),
    "darknet": (["weights/darknet/*", "weights/layers/*"], NUMBERS),
    "data": (["tools/npy.c", "weights/numpy/*", "tools/train/data/*.c"],
             ZIP[10:] + NUMBERS + [b"\x00\x00\x08\x03", b"\x00\x00\x08\x01",
                                   b"\x1f\x8b\x08"]),
    "emit": (["libinfer/graph/*", "libinfer/graph/ops/*", "kernels/*.def"],
             NUMBERS + [b"*/", b"\\", b"\"", b"??/"]),
    "export": (["weights/aten/*"], NUMBERS),
    "folder": (["weights/safetensors/*", "weights/onnx/tensor.c",
                "weights/external.c"], NUMBERS + [
                    b"a.safetensors", b"b.bin", b"../b.bin", b"location",
                    b"offset", b"length", b"weight_map"]),
    "hdf5": (["weights/hdf5/*", "weights/keras/*"], HDF5),
    "image": ([], PNG),
    "keras": (["weights/keras/*"], HDF5 + ZIP + NUMBERS),
    "legacy": (["weights/pytorch/*"], PICKLE),
    "model": (["libinfer/graph/*", "libinfer/graph/ops/*", "kernels/*.def"],
              NUMBERS),
    "multiplier": (["libinfer/multiplier/*"], NUMBERS + [b'{"axm":1,']),
    "ncnn": (["weights/ncnn/*", "weights/layers/*"], NUMBERS),
    "npz": (["weights/numpy/*"], ZIP + NUMBERS),
    "onnx": (["weights/onnx/*", "weights/onnx/composed/*"], NUMBERS[:4]),
    "passes": (["weights/onnx/*", "weights/onnx/composed/*"], NUMBERS[:4]),
    "pickle": (["weights/pytorch/*"], PICKLE),
    "pytorch": (["weights/pytorch/*"], PICKLE + ZIP),
    "safetensors": (["weights/safetensors/*"], NUMBERS),
    "script": (["weights/torchscript/*", "weights/aten/ops.def"],
               NUMBERS + [b"torch.", b"ops.prim.", b"__torch__.M", b"self",
                          b"x: Tensor", b"return ", b"(self).", b".forward(x, )",
                          b"List[int]", b"Optional[Tensor]", b"while ", b"else:",
                          b"for i in range(", b"class M(Module):", b"def f(",
                          b"\n    ", b"\n      "]),
    "tensorflow": (["weights/tensorflow/*", "weights/onnx/ops.def"], []),
    "text": (["libinfer/graph/*", "libinfer/graph/ops/*", "kernels/*.def",
              "libinfer/tune/tune_cache*.c"], NUMBERS),
    "tflite": (["weights/tflite/*", "weights/tflite/*/*"], [b"TFL3"]),
    "zip": ([], ZIP),
}
WORD = re.compile(r'"([A-Za-z_][A-Za-z0-9_.:/-]{1,39})"')
# Rows of tables name themselves without quotes.
ROW = re.compile(r"^\w+\((?:\w+, *)?([a-z][a-z0-9_]{1,31}),", re.M)


def words(source, patterns):
    found = set()
    for pattern in patterns:
        for path in glob.glob(os.path.join(source, pattern)):
            if not path.endswith((".c", ".h", ".def")):
                continue
            with open(path) as f:
                text = f.read()
            # Names of headers are no words of a file.
            text = re.sub(r'^#include ".*"$', "", text, flags=re.M)
            found.update(w.encode() for w in WORD.findall(text))
            if path.endswith(".def"):
                found.update(w.encode() for w in ROW.findall(text))
    return found


def quoted(token):
    return '"%s"' % "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else "\\x%02x" % b
        for b in token)


def main():
    source, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for target in sorted(TARGETS):
        patterns, tokens = TARGETS[target]
        found = words(source, patterns)
        if patterns and len(found) < 5:
            sys.exit("fuzz_dicts.py: %s: its sources have moved" % target)
        with open(os.path.join(out, target + ".dict"), "w") as f:
            f.writelines(quoted(token) + "\n"
                         for token in sorted(found | set(tokens)))


main()
