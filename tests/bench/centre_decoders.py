#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boxes of CenterNet and CenterFace beside their authors' own decoding.

    tests/bench/centre_decoders.py BUILD CENTERNET CENTERFACE PICTURE [--seed N]

CENTERNET and CENTERFACE are clones of github.com/xingyizhou/CenterNet and
github.com/Star-Clouds/CenterFace.  Their networks (ResNet-18 with three
transposed convolutions; the .param of ncnn) get random weights whose last
layers are scaled so that scores spread.  What decodes: ctdet_decode() over
onnxruntime's outputs, CenterFace.postprocess() over ncnn's.  CenterFace's
clips the left and upper edge before it adds the sides, so that boxes beyond
these two edges are compared by their number alone.  Needs PyTorch, onnxruntime,
ncnn, OpenCV for Python.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import types

import cv2
import ncnn
import numpy as np
import onnxruntime
import torch

SIZE = 320, 224


def source(repository, path):
    with open(os.path.join(repository, path)) as f:
        return f.read()


def load(name, text):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def infer(build, model, picture, *options):
    out = subprocess.run([f"{build}/infer", "-m", model, "--json", *options,
                          picture], check=True, capture_output=True).stdout
    boxes = json.loads(out)[0]["boxes"]
    rows = [[b["left"], b["top"], b["right"], b["bottom"], b["score"],
             b["class"]] for b in boxes]
    return np.array(rows), np.array([np.ravel(b.get("points", []))
                                     for b in boxes])


def nearest(found, box):
    return np.argmin(100 * abs(found[:, 4] - box[4]) +
                     abs(found[:, :4] - box[:4]).max(1) +
                     1000 * (found[:, 5] != box[5]))


def report(name, ours, theirs, compared, side, point):
    print(f"{name}: boxes {theirs}, ours {ours}; {compared} compared, largest "
          f"difference of sides {side:.1e} and of landmarks {point:.1e} pixels")


def centernet(a, image, folder):
    utils = load("utils", source(a.centernet, "src/lib/models/utils.py"))
    assert utils
    decode = load("decode", source(
        a.centernet, "src/lib/models/decode.py").replace(".utils", "utils"))
    resnet = load("msra_resnet", source(
        a.centernet, "src/lib/models/networks/msra_resnet.py"))
    block, layers = resnet.resnet_spec[18]
    net = resnet.PoseResNet(block, layers, {"hm": 7, "wh": 2, "reg": 2}, 64)
    for m in net.modules():
        if isinstance(m, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
            torch.nn.init.kaiming_normal_(m.weight)
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
    net.eval().requires_grad_(False)
    x = torch.from_numpy(np.ascontiguousarray(
        image[:, :, ::-1].transpose(2, 0, 1)[None]).astype(np.float32) / 255)
    with torch.no_grad():
        out = net(x)[0]
        for head, mean, spread in (("hm", -4.5, 1.5), ("wh", 12, 4),
                                   ("reg", 0.5, 0.2)):
            last = [c for c in getattr(net, head).modules()
                    if isinstance(c, torch.nn.Conv2d)][-1]
            by = spread / out[head].std()
            last.weight.mul_(by)
            last.bias.mul_(by).add_(mean - by * out[head].mean())

    class Outputs(torch.nn.Module):
        def forward(self, x):
            out = net(x)[0]
            return out["hm"], out["wh"], out["reg"]

    onnx = f"{folder}/centernet.onnx"
    torch.onnx.export(Outputs(), x, onnx, input_names=["image"],
                      output_names=["hm", "wh", "reg"], opset_version=17,
                      dynamo=False)
    hm, wh, reg = onnxruntime.InferenceSession(onnx).run(
        None, {"image": x.numpy()})
    boxes = decode.ctdet_decode(torch.from_numpy(hm).sigmoid(),
                                torch.from_numpy(wh), torch.from_numpy(reg),
                                K=3000)[0].numpy()
    boxes = boxes[boxes[:, 4] >= 0.3]
    boxes[:, :4] *= 4
    boxes[:, 0:4:2] = boxes[:, 0:4:2].clip(0, SIZE[0])
    boxes[:, 1:4:2] = boxes[:, 1:4:2].clip(0, SIZE[1])
    subprocess.run([f"{a.build}/wconv", onnx, "-q", "-o", f"{folder}/n.infer"],
                   check=True)
    found, _ = infer(a.build, f"{folder}/n.infer", f"{folder}/in.png")
    side = max(abs(found[nearest(found, b), :4] - b[:4]).max() for b in boxes)
    report("CenterNet", len(found), len(boxes), len(boxes), side, 0)


def write_weights(rows, path, scaled, rng):
    with open(path, "wb") as out:
        for r in rows:
            p = dict(v.split("=") for v in r[4 + int(r[2]) + int(r[3]):])
            if "onvolution" in r[0]:
                k, n = int(p["0"]), int(p["6"])
                w = rng.standard_normal(n) * np.sqrt(0.5 * k / n)
                bias = rng.standard_normal(k) * 0.1
                if r[4 + int(r[2])] in scaled:
                    by, shift = scaled[r[4 + int(r[2])]]
                    w, bias = w * by, np.full(k, shift)
                out.write(struct.pack("<I", 0) + w.astype("<f4").tobytes())
                if int(p.get("5", 0)):
                    out.write(bias.astype("<f4").tobytes())
            elif r[0] == "BatchNorm":
                n = int(p["0"])
                for v in (rng.uniform(0.5, 1.5, n), rng.normal(0, 0.2, n),
                          rng.uniform(0.5, 1.5, n), rng.normal(0, 0.2, n)):
                    out.write(v.astype("<f4").tobytes())


def run_ncnn(param, weights, image, names):
    net = ncnn.Net()
    for option in ("vulkan_compute", "fp16_storage", "fp16_packed",
                   "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, "use_" + option, False)
    net.opt.num_threads = 1
    assert net.load_param(param) == 0 and net.load_model(weights) == 0
    x = np.ascontiguousarray(
        image[:, :, ::-1].transpose(2, 0, 1).astype(np.float32))
    run = net.create_extractor()
    run.input("input.1", ncnn.Mat(x).clone())
    return {n: np.array(run.extract(n)[1])[None] for n in names}


def centerface(a, image, folder):
    text = source(a.centerface, "models/ncnn/centerface.param")
    param, weights = f"{folder}/face.param", f"{folder}/face.bin"
    with open(param, "w") as f:
        f.write(text)
    rows = [line.split() for line in text.split("\n")[2:] if line]
    heat = next(r[4] for r in rows if r[0] == "Sigmoid" and r[5] == "537")
    write_weights(rows, weights, {}, np.random.default_rng(a.seed))
    out = run_ncnn(param, weights, image, [heat, "538", "539", "540"])
    scaled = {}
    for name, mean, spread in ((heat, -1.5, 1.5), ("538", 1.5, 0.3),
                               ("539", 0, 0.2), ("540", 0.5, 0.2)):
        by = spread / out[name].std()
        scaled[name] = by, mean - by * out[name].mean()
    write_weights(rows, weights, scaled, np.random.default_rng(a.seed))
    out = run_ncnn(param, weights, image, ["537", "538", "539", "540"])
    face = load("centerface", source(
        a.centerface, "prj-python/centerface.py").replace("np.bool)", "bool)"))
    theirs = face.CenterFace.__new__(face.CenterFace)
    theirs.landmarks = True
    (theirs.img_h_new, theirs.img_w_new, theirs.scale_h,
     theirs.scale_w) = theirs.transform(image.shape[0], image.shape[1])
    boxes, points = theirs.postprocess(out["537"], out["540"], out["539"],
                                       out["538"], 0.5)
    subprocess.run([f"{a.build}/wconv", param, weights, "-q", "--scale=1", "-o",
                    f"{folder}/f.infer"], check=True)
    count = len(infer(a.build, f"{folder}/f.infer", f"{folder}/in.png",
                      "--iou=0.3")[0])
    found, marks = infer(a.build, f"{folder}/f.infer", f"{folder}/in.png",
                         "--iou=1")
    side = point = compared = 0
    for b, p in zip(boxes, points):
        if b[0] > 0 and b[1] > 0:
            at = nearest(found, np.append(b, 0))
            side = max(side, abs(found[at, :4] - b[:4]).max())
            point = max(point, abs(marks[at] - p).max())
            compared += 1
    report("CenterFace", count, len(boxes), compared, side, point)


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "centernet", "centerface", "picture"):
        parser.add_argument(name)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    image = cv2.resize(cv2.imread(a.picture), SIZE)
    with tempfile.TemporaryDirectory() as folder:
        cv2.imwrite(f"{folder}/in.png", image)
        centernet(a, image, folder)
        centerface(a, image, folder)


main()
