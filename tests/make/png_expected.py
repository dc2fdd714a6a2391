# SPDX-License-Identifier: Apache-2.0
"""Decodes PNG files with nothing but zlib and numpy, and prints what
infer_image_load() must give: path, width, height, channels, CRC-32.

usage: png_expected.py TEST_DATA/png-tests > tests/expected/png.tsv

Files that this decoder refuses are not listed.  16-bit samples are rounded to
8 bits, alpha is dropped."""
import os
import struct
import sys
import zlib

import numpy as np

PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
          (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunks(data):
    if data[:8] != b'\x89PNG\r\n\x1a\n':
        raise ValueError('signature')
    at = 8
    while at < len(data):
        n, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        crc, = struct.unpack('>I', data[at + 8 + n:at + 12 + n])
        if zlib.crc32(kind + body) != crc and not kind[0] & 32:
            raise ValueError('crc')
        yield kind, body
        at += 12 + n


def unfilter(raw, at, width, height, bits):
    step = max(1, bits // 8)
    row_bytes = (width * bits + 7) // 8
    rows = []
    before = bytearray(row_bytes)
    for _ in range(height):
        kind, row = raw[at], bytearray(raw[at + 1:at + 1 + row_bytes])
        if len(row) < row_bytes or kind > 4:
            raise ValueError('row')
        at += 1 + row_bytes
        for i in range(row_bytes):
            a = row[i - step] if i >= step else 0
            b = before[i]
            c = before[i - step] if i >= step else 0
            if kind == 1:
                p = a
            elif kind == 2:
                p = b
            elif kind == 3:
                p = (a + b) // 2
            elif kind == 4:
                q = a + b - c
                d = (abs(q - a), abs(q - b), abs(q - c))
                p = a if d[0] <= d[1] and d[0] <= d[2] else \
                    b if d[1] <= d[2] else c
            else:
                p = 0
            row[i] = (row[i] + p) & 255
        rows.append(bytes(row))
        before = row
    return rows, at


def samples(rows, width, depth, channels):
    a = np.frombuffer(b''.join(rows), np.uint8).reshape(len(rows), -1)
    if depth == 16:
        a = a.reshape(len(rows), width, channels, 2).astype(np.uint32)
        return a[..., 0] * 256 + a[..., 1]
    if depth < 8:
        a = np.unpackbits(a, axis=1)
        a = a[:, :a.shape[1] // depth * depth].reshape(len(rows), -1, depth)
        a = (a * (1 << np.arange(depth)[::-1])).sum(-1)[:, :width]
    return a.reshape(len(rows), width, channels).astype(np.uint32)


def decode(data):
    head = palette = None
    idat = b''
    end = False
    for kind, body in chunks(data):
        if kind == b'IHDR':
            head = struct.unpack('>IIBBBBB', body)
        elif kind == b'PLTE':
            palette = np.frombuffer(body, np.uint8).reshape(-1, 3)
        elif kind == b'IDAT':
            idat += body
        elif kind == b'IEND':
            end = True
            break
        elif not kind[0] & 32:
            raise ValueError('critical chunk')
    width, height, depth, color, _, _, interlace = head
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    if not end or (depth, color) not in \
            [(d, c) for c, ds in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)),
                                  (3, (1, 2, 4, 8)), (4, (8, 16)),
                                  (6, (8, 16))) for d in ds]:
        raise ValueError('header')
    raw = zlib.decompress(idat)
    out = np.zeros((height, width, channels), np.uint32)
    at = 0
    for x, y, dx, dy in PASSES if interlace else [(0, 0, 1, 1)]:
        w, h = -(-(width - x) // dx), -(-(height - y) // dy)
        if w > 0 and h > 0:
            rows, at = unfilter(raw, at, w, h, depth * channels)
            out[y::dy, x::dx] = samples(rows, w, depth, channels)
    if color == 3:
        # An index past the palette shows as black.
        table = np.zeros((256, 3), np.uint32)
        table[:len(palette)] = palette
        return table[out[..., 0]].astype(np.uint8)
    if depth == 16:
        out = (out * 255 + 32895) >> 16
    elif depth < 8:
        out = out * (255 // ((1 << depth) - 1))
    if channels in (2, 4):
        out = out[..., :-1]
    return out.astype(np.uint8)


def main():
    top = sys.argv[1]
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith('.png'):
                continue
            try:
                a = decode(open(path, 'rb').read())
            except Exception:
                continue
            print(os.path.relpath(path, top), a.shape[1], a.shape[0],
                  a.shape[2], '%08x' % zlib.crc32(a.tobytes()), sep='\t')


main()
