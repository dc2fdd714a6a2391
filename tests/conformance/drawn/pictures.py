#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drawn pictures as infer gives them to a network, beside Pillow.

    pictures.py FOLDER --wconv=build/wconv --infer=build/infer [--count=100]
                [--seed=N] [--first=0] [--keep=FOLDER]

PNG files are written by this program: all types of colour, 1 to 16 bits,
palettes, tRNS, interlacing (Adam7), filters, chunks that nobody needs, data in
several chunks.  JPEG files are written by Pillow: gray, RGB, CMYK, progressive,
restart markers, subsampling, EXIF orientations, ICC profiles.  Sizes go from 1
pixel; a file may lie under an odd name, behind a link or on standard input.
The network is the identity; its size, resize, filter, colours, mean and standard
deviation are drawn.

The expected pixels are those that were drawn (PNG) or Pillow's (JPEG, within the
rounding of decoders), resized by Pillow: exact, shorter side as torchvision,
letterbox.  --json is read by Python's json.  A part of the files is cut off or
changed: infer must refuse them or read them, not crash.

Without --seed the seed is the clock's, which the first line says.
Exit status: 1 where a case differs or crashes.
"""
import collections
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
from PIL import Image, ImageOps

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite

SIDES = (1, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 40)
NAMES = ("a", "a b", "-x", "é", "n\nl", "q\"q", "b\\s", "\udcff", "%s", "@l",
         "x:y", "*", "\t", "a.npy", "'", "\x1b[31m", "&<>")


# ---- PNG -------------------------------------------------------------

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(
        ">I", zlib.crc32(kind + data))


def pack_rows(d, samples, bits):
    """Rows of samples (H, W, C) with drawn filters."""
    h, w, c = samples.shape
    if bits == 16:
        raw = samples.astype(">u2").tobytes()
        rows = [raw[i * w * c * 2:(i + 1) * w * c * 2] for i in range(h)]
    elif bits == 8:
        rows = [samples[i].astype(np.uint8).tobytes() for i in range(h)]
    else:
        rows = []
        for i in range(h):
            text = "".join(format(int(v), "0%db" % bits)
                           for v in samples[i].ravel())
            text += "0" * (-len(text) % 8)
            rows.append(bytes(int(text[k:k + 8], 2)
                              for k in range(0, len(text), 8)))
    out, before = b"", bytes(len(rows[0]) if rows else 0)
    step = max(1, bits * c // 8)
    for row in rows:
        kind, line = d.randint(0, 4), bytearray()
        for i, v in enumerate(row):
            a = row[i - step] if i >= step else 0
            b = before[i]
            k = before[i - step] if i >= step else 0
            p = a + b - k
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b),
                        (abs(p - k), 2, k))[2]
            line.append((v - (0, a, b, (a + b) // 2, paeth)[kind]) & 255)
        out += bytes([kind]) + bytes(line)
        before = row
    return out


def exif_chunk(d, turn):
    """eXIf: a directory of one tag or two, either byte order."""
    order = d.choice("<>")
    tags = [struct.pack(order + "HHIHH", 274, 3, 1, turn, 0)]
    if d.random() < 0.5:
        tags.insert(0, struct.pack(order + "HHIHH", 256, 3, 1, 8, 0))
    return chunk(b"eXIf", {"<": b"II", ">": b"MM"}[order]
                 + struct.pack(order + "HIH", 42, 8, len(tags))
                 + b"".join(tags) + struct.pack(order + "I", 0))


def upright(a, turn):
    """The picture as TIFF's tag 274 means it."""
    if turn in (5, 6, 7, 8):
        a = a.transpose(1, 0, 2)
    if turn in (3, 4, 7, 8):
        a = a[::-1]
    return a[:, ::-1] if turn in (2, 3, 6, 7) else a


def png(d, w, h):
    """(bytes, pixels of 8 bits: H, W, 1 or 3)"""
    kind = d.choice((0, 2, 3, 4, 6))
    bits = d.choice({0: (1, 2, 4, 8, 16), 3: (1, 2, 4, 8)}.get(kind, (8, 16)))
    r = np.random.RandomState(d.randrange(1 << 30))
    c = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    more, colours = b"", None
    top = 1 << bits
    if kind == 3:
        top = d.randint(1, top)
        colours = r.randint(0, 256, (top, 3))
        more += chunk(b"PLTE", colours.astype(np.uint8).tobytes())
        if d.random() < 0.5:
            more += chunk(b"tRNS", bytes(d.choices(range(256),
                                                   k=d.randint(1, top))))
    elif kind in (0, 2) and d.random() < 0.3:
        more += chunk(b"tRNS", struct.pack(
            ">%dH" % c, *[d.randrange(top) for _ in range(c)]))
    if d.random() < 0.6:  # smooth, so that filters and resizing see slopes
        samples = np.minimum(top - 1, (np.add.outer(
            np.arange(h) * top / (2 * h), np.arange(w) * top / (2 * w))[
                ..., None] + np.zeros(c)).astype(int))
    else:
        samples = r.randint(0, top, (h, w, c))
    before = b""
    for name, data in ((b"gAMA", struct.pack(">I", 45455)), (b"sRGB", b"\0"),
                       (b"pHYs", struct.pack(">IIB", 1, 1, 1)),
                       (b"zzZz", b"any")):
        if d.random() < 0.2:
            before += chunk(name, data)
    lace = d.random() < 0.4
    if lace:
        body = b""
        for x, y, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8),
                             (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                             (0, 1, 1, 2)):
            part = samples[y::dy, x::dx]
            if part.size:
                body += pack_rows(d, part, bits)
    else:
        body = pack_rows(d, samples, bits)
    body = zlib.compress(body, d.randint(0, 9))
    cuts = sorted(d.randint(0, len(body)) for _ in range(d.randint(0, 3)))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
        ">IIBBBBB", w, h, bits, kind, 0, 0, lace)) + before + more
    for a, b in zip([0] + cuts, cuts + [len(body)]):
        data += chunk(b"IDAT", body[a:b])
    turn = d.choice((None, d.randint(0, 9)))
    if turn is not None:
        data += exif_chunk(d, turn)
    data += chunk(b"IEND", b"")
    if kind == 3:
        return data, upright(colours[samples[..., 0]].astype(np.uint8), turn)
    pixels = samples[..., :3 if c > 2 else 1]
    pixels = (pixels * 255 + 32767) // 65535 if bits == 16 else pixels * 255 // (top - 1)
    return data, upright(pixels.astype(np.uint8), turn)


# ---- JPEG ------------------------------------------------------------

def jpeg(d, w, h):
    mode = d.choice(("L", "RGB", "RGB", "RGB", "CMYK"))
    y, x = np.mgrid[0:h, 0:w]
    planes = [127 + 100 * np.sin(x / d.uniform(3, 20) + y / d.uniform(3, 20)
                                 + d.random() * 6)
              for _ in range(len(mode) if mode != "L" else 1)]
    a = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    p = Image.fromarray(a[..., 0] if mode == "L" else a, mode)
    more = {"quality": d.choice((50, 90, 100)),
            "progressive": d.random() < 0.3, "optimize": d.random() < 0.3}
    if mode == "RGB":
        more["subsampling"] = d.choice(("4:4:4", "4:2:2", "4:2:0"))
    if d.random() < 0.2:
        more["restart_marker_blocks"] = d.randint(1, 3)
    if d.random() < 0.2:
        more["icc_profile"] = bytes(d.choices(range(256), k=d.choice(
            (10, 70000))))
    if d.random() < 0.2:
        more["comment"] = "x" * d.randint(0, 300)
    if d.random() < 0.4:
        exif = Image.Exif()
        exif[0x0112] = d.randint(0, 9)
        if d.random() < 0.3:
            exif[0x010F] = "maker" * d.randint(1, 50)
        more["exif"] = exif
    out = io.BytesIO()
    p.save(out, "JPEG", **more)
    data = out.getvalue()
    p = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    a = np.array(p if mode == "L" else p.convert("RGB"))
    return data, a.reshape(a.shape[0], a.shape[1], -1)


# ---- preprocessing ---------------------------------------------------

FILTERS = {"bilinear": Image.BILINEAR, "nearest": Image.NEAREST,
           "bicubic": Image.BICUBIC}


def convert(a, channels):
    if a.shape[2] == channels:
        return a
    if channels == 3:
        return np.repeat(a, 3, 2)
    return np.array(Image.fromarray(a, "RGB").convert("L"))[..., None]


def resized(a, w, h, how):
    """Columns first, as Pillow before version 13 has it without being asked."""
    p = Image.fromarray(a[..., 0] if a.shape[2] == 1 else a)
    if how != "nearest":
        p = p.resize((w, p.height), FILTERS[how])
    return np.array(p.resize((w, h), FILTERS[how])).reshape(h, w, -1)


def even_round(x):
    return int(np.rint(x))


def fitted(a, options, W, H):
    h, w = a.shape[:2]
    how, policy = options["interp"], options["resize"]
    if policy == "exact":
        return resized(a, W, H, how)
    if policy == "none":
        nw, nh = w, h
        a = a
    elif policy == "letterbox":
        s = min(W / w, H / h)
        nw, nh = (max(1, int(np.floor(v * s + 0.5))) for v in (w, h))
        a = resized(a, nw, nh, how)
    else:
        n = int(policy)
        nw, nh = (n, int(n * h / w)) if w <= h else (int(n * w / h), n)
        nw, nh = max(nw, 1), max(nh, 1)
        a = resized(a, nw, nh, how)
    fill = 114 if policy == "letterbox" else 0
    out = np.full((H, W, a.shape[2]), fill, np.uint8)
    left, top = even_round((nw - W) / 2), even_round((nh - H) / 2)
    for y in range(H):
        for x in range(W):
            if 0 <= y + top < nh and 0 <= x + left < nw:
                out[y, x] = a[y + top, x + left]
    return out


def identity(path, c, H, W):
    import onnx
    from onnx import helper
    value = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT,
                                           [1, c, H, W]) for n in "xy"]
    g = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                          value[:1], value[1:])
    onnx.save(helper.make_model(g, ir_version=8, opset_imports=[
        helper.make_opsetid("", 13)]), path)


def damaged(d, data):
    data = bytearray(data)
    if d.random() < 0.5:
        return bytes(data[:d.randrange(len(data))])
    for _ in range(d.randint(1, 4)):
        data[d.randrange(len(data))] = d.randrange(256)
    return bytes(data)


def attempt(a, d):
    w, h = d.choice(SIDES), d.choice(SIDES)
    form = d.choice((png, png, jpeg))
    data, pixels = form(d, w, h)
    W, H, c = d.choice(SIDES), d.choice(SIDES), d.choice((1, 3, 3))
    options = {"interp": d.choice(tuple(FILTERS)), "resize": d.choice(
        ("exact", "exact", "letterbox", str(d.randint(1, 40))))}
    if options["resize"].isdigit():
        options["resize"] = str(max(int(options["resize"]), W, H))
    if d.random() < 0.1:
        H, W = pixels.shape[:2]
        options["resize"] = "none"
    scale = d.choice(("1", "1/255", "0.5"))
    mean = [d.choice((0, 0.25, 100)) for _ in range(c)]
    std = [d.choice((1, 0.5, 2)) for _ in range(c)]
    colour = d.choice(("rgb", "bgr")) if c == 3 else "gray"
    facts = "%s %dx%d to %dx%d %s %s" % (form.__name__, w, h, W, H, colour,
                                         options)
    identity(a.folder + "/id.onnx", c, H, W)
    rc, text = suite.run(
        a.wconv, a.folder + "/id.onnx", "-o", a.folder + "/id.infer", "-q",
        "--scale=" + scale, "--mean=" + ",".join(map(str, mean)),
        "--std=" + ",".join(map(str, std)), "--color=" + colour,
        *["--%s=%s" % o for o in options.items()])
    if rc != 0:
        return "refused", text, facts
    bad = d.random() < 0.15
    folder = os.path.join(a.folder, "pictures")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    name = os.path.join(folder, d.choice(NAMES))
    with open(name, "wb") as f:
        f.write(damaged(d, data) if bad else data)
    way = d.choice(("file", "file", "folder", "link", "stdin", "pipe"))
    given, kept = name, open(os.devnull, "rb")
    if way == "link":
        os.symlink(name, folder + "/link")
        given = folder + "/link"
    elif way == "folder":
        given = folder
    elif way in ("stdin", "pipe"):
        given, kept = "-", open(name, "rb")
    dump = a.folder + "/dump"
    shutil.rmtree(dump, ignore_errors=True)
    p = subprocess.run([a.infer, "-m", a.folder + "/id.infer", "-q",
                        "--threads=1", "--dump-layers=" + dump, given],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=60, **({"input": kept.read()} if way == "pipe"
                                      else {"stdin": kept}))
    facts += " " + way
    if bad:
        return ("match" if p.returncode in (0, 2) else "crashed",
                p.stderr.decode("utf-8", "replace"), facts + " damaged")
    if p.returncode != 0:
        return ("refused" if p.returncode in (1, 2) else "crashed",
                p.stderr.decode("utf-8", "replace"), facts)
    got = np.load(os.path.join(dump, sorted(os.listdir(dump))[0]))[0]
    want = fitted(convert(pixels, c), options, W, H).astype(np.float64)
    if colour == "bgr":
        want = want[..., ::-1]
    want = want.transpose(2, 0, 1)
    factor = eval(scale)
    unit = [(factor / s) for s in std]
    for k in range(c):
        want[k] = (want[k] * factor - mean[k]) / std[k]
    off = max(float(np.abs(got[k] - want[k]).max()) / unit[k]
              for k in range(c))
    most = 0.01 if form is png and c == pixels.shape[2] else \
        1.01 if form is png else 6
    if off > most:
        return "differs", "%.1f levels" % off, facts
    if way not in ("stdin", "pipe"):
        p = subprocess.run([a.infer, "-m", a.folder + "/id.infer", "--json",
                            "--task=classify", given], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=60)
        try:
            json.loads(p.stdout.decode("utf-8"))
        except ValueError as e:
            return "differs", "--json: %s: %r" % (e, p.stdout[:200]), facts
        if p.returncode:
            return "refused", p.stderr.decode("utf-8", "replace"), facts
    return "match", "", facts


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--keep")
    a = p.parse_args()
    if a.seed is None:
        a.seed = int(time.time())
    print("seed", a.seed, flush=True)
    for f in (a.folder, a.keep or a.folder):
        os.makedirs(f, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for i in range(a.first, a.first + a.count):
        d = random.Random("%d %d" % (a.seed, i))
        status, why, facts = attempt(a, d)
        total[status] += 1
        if status == "match":
            continue
        causes[status, facts.split()[0]].append(("%d %s" % (i, facts), why))
        print(i, facts, status, " ".join(why.split())[:300], flush=True)
        if a.keep:
            folder = os.path.join(a.folder, "pictures")
            for n in os.listdir(folder)[:1]:
                shutil.copy(os.path.join(folder, n), os.path.join(
                    a.keep, "%d.picture" % i))
    return suite.report(total, causes)


if __name__ == "__main__":
    sys.exit(main())
