#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boxes of infer beside Ultralytics' own decoding over onnxruntime.

usage: yolo_exports.py --build=FOLDER --work=FOLDER --picture=FILE NETWORK...

NETWORK is a name of Ultralytics (yolov8n, yolo11n-seg, yolov8n-obb, rtdetr-l, ...);
it gets random weights whose scores are spread, and is exported to ONNX for 320x320
pixels.  The picture should be 320 pixels wide (RT-DETR: and high), since the two
resize differently.  Needs ultralytics, torch, onnx, onnxruntime and OpenCV.
"""

import argparse
import json
import logging
import os
import subprocess

import numpy as np
import torch
from ultralytics import RTDETR, YOLO
from ultralytics.utils import LOGGER

IOU = "0.7"
TASKS = {"seg": "segment", "pose": "pose", "obb": "obb"}


def network(name, path, **options):
    return (RTDETR if name.startswith("rtdetr") else YOLO)(path, **options)


def export(name):
    """NAME.onnx of random weights; batch norm sees its own statistics first."""
    model = network(name, name + ".yaml")
    torch.manual_seed(7)
    for m in model.model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.weight.data.uniform_(0.7, 1.3)
            m.bias.data.normal_(0, 0.2)
            m.reset_running_stats()
            m.momentum = 0.3
    model.model.train()
    x = torch.nn.functional.interpolate(torch.rand(4, 3, 10, 10), 320, mode="bicubic")
    with torch.no_grad():
        for _ in range(12):
            model.model(x.clamp(0, 1))
    model.model.eval()
    for key, m in model.model.model[-1].named_modules():
        scores = isinstance(m, torch.nn.Conv2d) and m.bias is not None and "cv3" in key
        if scores or ("score_head" in key and isinstance(m, torch.nn.Linear)):
            m.weight.data.normal_(0, 2.0 / m.weight[0].numel() ** 0.5)
            m.bias.data.fill_(-3)
    model.export(format="onnx", imgsz=320, opset=17, simplify=False)


def ours(name, arguments):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    tool = os.path.join(arguments.build, "wconv")
    subprocess.run([tool, "-q", name + ".onnx", "-o", name + ".infer"], env=env, check=True)
    command = [os.path.join(arguments.build, "infer"), "-m", name + ".infer", "--json",
               "--score=" + arguments.score, "--iou=" + IOU, arguments.picture]
    result = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
    return result[0]["boxes"]


def mask_of(mask):
    values = np.arange(len(mask["counts"])) % 2 > 0
    return np.repeat(values, mask["counts"]).reshape(mask["size"][::-1]).T


def nearest(box, boxes, classes, used):
    """The nearest box of the class that is not used, and its distance in pixels."""
    best, at = 1e9, -1
    sides = np.array([box[k] for k in ("left", "top", "right", "bottom")])
    for i, other in enumerate(boxes):
        if i not in used and classes[i] == box["class"]:
            distance = np.abs(other - sides).max()
            if distance < best:
                best, at = distance, i
    return best, at


def same_corners(box, boxes):
    c = np.array(box["corners"])
    return any(np.abs(np.roll(k, r, 0) - b).max() < 0.01
               for b in boxes for r in range(4) for k in (c, c[::-1]))


def compare(name, mine, theirs):
    """One line of the table."""
    size = np.array([theirs.orig_shape[1], theirs.orig_shape[0]])
    if theirs.obb is not None:
        corners = theirs.obb.xyxyxyxy.numpy()
        found = sum(same_corners(b, corners) for b in mine)
        return f"| {name} | {len(mine)} | {len(corners)} | {found} | 0.01 | | |"
    boxes = np.clip(theirs.boxes.xyxy.numpy(), 0, [*size, *size])
    classes = theirs.boxes.cls.numpy().astype(int)
    used, pixels, score, ious, points = set(), 0, 0, [], 0
    for b in mine:
        distance, i = nearest(b, boxes, classes, used)
        if distance > 0.5:
            continue
        used.add(i)
        pixels = max(pixels, distance)
        score = max(score, abs(theirs.boxes.conf[i].item() - b["score"]))
        if "mask" in b:
            p, q = mask_of(b["mask"]), theirs.masks.data[i].numpy() > 0.5
            ious.append((p & q).sum() / max((p | q).sum(), 1))
        if "points" in b:
            own = np.clip(np.array(b["points"])[:, :2], 0, size)
            points = max(points, np.abs(theirs.keypoints.xy[i].numpy() - own).max())
    more = f"mask IoU, mean {np.mean(ious):.3f}" if ious else ""
    more += f"points {points:.3f} px" if mine and "points" in mine[0] else ""
    return f"| {name} | {len(mine)} | {len(boxes)} | {len(used)} | {pixels:.3f} | {score:.5f} | {more} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--picture", required=True)
    parser.add_argument("--score", default="0.1")
    parser.add_argument("network", nargs="+")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.picture = os.path.abspath(arguments.picture)
    LOGGER.setLevel(logging.ERROR)
    torch.set_num_threads(1)
    os.makedirs(arguments.work, exist_ok=True)
    os.chdir(arguments.work)
    print("| network | infer | Ultralytics | found | px | score | |\n|---|---|---|---|---|---|---|")
    for name in arguments.network:
        if not os.path.exists(name + ".onnx"):
            export(name)
        options = {} if name.startswith("rtdetr") else {"task": TASKS.get(name.split("-")[-1], "detect")}
        theirs = network(name, name + ".onnx", **options).predict(
            arguments.picture, imgsz=320, conf=float(arguments.score), iou=float(IOU),
            max_det=5000, device="cpu", verbose=False, retina_masks=True)[0]
        print(compare(name, ours(name, arguments), theirs), flush=True)


if __name__ == "__main__":
    main()
