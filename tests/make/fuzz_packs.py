#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs corpora of the fuzz targets into tests/fuzz/corpus.

usage: fuzz_packs.py CORPORA OUT
       fuzz_packs.py --unpack PACK FOLDER

CORPORA has a folder for each target, as `make fuzz` leaves them in
fuzz-build/corpus; minimise them first (TARGET -merge=1 NEW OLD).  Of each the
smallest inputs are kept, up to 4 KiB each and 256 KiB in all, in one file
TARGET.pack.gz: of each input its length (4 bytes, little-endian) and its bytes.
--unpack writes each input of a pack as a file, named by its hash.
"""
import gzip
import hashlib
import os
import struct
import sys

LARGEST, MOST = 4096, 256 << 10


def unpack(pack, folder):
    os.makedirs(folder, exist_ok=True)
    with gzip.open(pack) as f:
        packed = f.read()
    at = 0
    while at < len(packed):
        size, = struct.unpack_from("<I", packed, at)
        data = packed[at + 4:at + 4 + size]
        at += 4 + size
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()),
                  "wb") as f:
            f.write(data)


def main():
    if sys.argv[1] == "--unpack":
        unpack(*sys.argv[2:])
        return
    corpora, out = sys.argv[1:]
    for name in sorted(os.listdir(corpora)):
        folder = os.path.join(corpora, name)
        if not os.path.isdir(folder):
            continue
        inputs = []
        for file in os.listdir(folder):
            with open(os.path.join(folder, file), "rb") as f:
                inputs.append(f.read())
        inputs = sorted(set(inputs), key=lambda data: (len(data), data))
        packed, count = b"", 0
        for data in inputs:
            if len(data) > LARGEST or len(packed) + len(data) > MOST:
                break
            packed += struct.pack("<I", len(data)) + data
            count += 1
        if not count:
            continue
        path = os.path.join(out, name + ".pack.gz")
        with open(path, "wb") as f:
            f.write(gzip.compress(packed, 9, mtime=0))
        print("%-12s %5d of %5d inputs, %7d bytes" % (
            name, count, len(inputs), os.path.getsize(path)))


main()
