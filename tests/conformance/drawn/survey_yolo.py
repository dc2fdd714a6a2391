# SPDX-License-Identifier: Apache-2.0
"""Networks of Ultralytics with random weights, as its own exporter writes them, for
torch_survey.py.  The reference is ONNX Runtime or PyTorch on the same file; boxes
that a file has chosen (nms=True, end-to-end heads) are compared as sets, since
boxes of nearly equal scores change places."""
import copy
import os
import random

import numpy as np
import torch

import suite
from torch_layers import flat
from torch_ops import outputs_of, run_model

BASES = ("yolov3-tiny yolov3 yolov3-spp yolov5n yolov5s yolov5n-p6 yolov6n yolov6s "
         "yolov8n yolov8s yolov8n-seg yolov8n-pose yolov8n-obb yolov8n-cls yolov8n-p2 "
         "yolov8n-p6 yolov8n-ghost yolov8n-ghost-p2 yolov8n-pose-p6 yolov8n-seg-p6 "
         "yolov8n-rtdetr yolov8n-cls-resnet50 yolov8s-world yolov8s-worldv2 yoloe-v8n "
         "yoloe-v8n-seg yolov9t yolov9s yolov9m yolov9c yolov9c-seg yolov10n yolov10s "
         "yolov10m yolo11n yolo11s yolo11n-seg yolo11n-pose yolo11n-obb yolo11n-cls "
         "yolo11n-cls-resnet18 yoloe-11n yoloe-11n-seg yolo12n yolo12s yolo12n-seg "
         "yolo12n-pose yolo12n-obb yolo12n-cls yolo26n yolo26s yolo26n-seg "
         "yolo26n-pose yolo26n-obb yolo26n-cls yolo26n-p2 yolo26n-p6 yolo26n-sem "
         "yolo26n-depth yoloe-26n yoloe-26n-seg rtdetr-l rtdetr-resnet50").split()
FORMS = {"onnx": {}, "nms": {"nms": True}, "dynamic": {"dynamic": True},
         "dynamic-nms": {"dynamic": True, "nms": True},
         "torchscript": {}, "torchscript-nms": {"nms": True}, "pt2": {}}


def names():
    import ultralytics  # noqa: F401
    return list(BASES)


def build(name):
    """The network; batch norms see their own statistics, scores are spread."""
    from ultralytics import RTDETR, YOLO
    kind = RTDETR if name.startswith("rtdetr") or "-rtdetr" in name else YOLO
    model = kind(name + ".yaml")
    network = model.model
    for m in network.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.weight.data.uniform_(0.7, 1.3)
            m.bias.data.normal_(0, 0.2)
            m.reset_running_stats()
            m.momentum = 0.3
            m.train()
    x = torch.nn.functional.interpolate(torch.rand(2, 3, 10, 10), 256,
                                        mode="bicubic")
    with torch.no_grad():
        for _ in range(4):
            network(x.clamp(0, 1))
    network.eval()
    for key, m in network.model[-1].named_modules():
        scores = (isinstance(m, torch.nn.Conv2d) and m.bias is not None and
                  "cv3" in key)
        if scores or "score_head" in key and isinstance(m, torch.nn.Linear):
            m.weight.data.normal_(0, 2.0 / m.weight[0].numel() ** 0.5)
            m.bias.data.fill_(-3)
    return model


def write(model, form, size, opset):
    """The path of the file."""
    if form == "pt2":
        # A copy, since heads keep the anchors of what they saw last.
        program = torch.export.export(copy.deepcopy(model.model),
                                      (torch.rand(1, 3, *size),), strict=False)
        torch.export.save(program, "case.pt2")
        return "case.pt2"
    more = dict(FORMS[form])
    if form.startswith("torchscript"):
        return model.export(format="torchscript", imgsz=size, device="cpu",
                            **more)
    return model.export(format="onnx", imgsz=size, opset=opset, simplify=False,
                        device="cpu", **more)


def reference(path, model, form, x):
    if form == "pt2":
        with torch.no_grad():
            return [t.numpy() for t in flat(torch.export.load(path).module()(x))]
    if form.startswith("torchscript"):
        with torch.no_grad():
            return [t.numpy() for t in flat(torch.jit.load(path)(x))]
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    s = onnxruntime.InferenceSession(path, options)
    return s.run(None, {s.get_inputs()[0].name: x.numpy()})


def rows_apart(got, want):
    """Rows of boxes without a fellow whose values differ by at most 1e-3 of the
    largest value of their column."""
    g, w = got.reshape(-1, got.shape[-1]), want.reshape(-1, want.shape[-1])
    unit = np.maximum(np.abs(w).max(0), 1e-6) * 1e-3
    apart, used = 0, np.zeros(len(w), bool)
    for row in g:
        off = np.where(used, np.inf, (np.abs(w - row) / unit).max(1))
        i = off.argmin()
        if off[i] <= 1:
            used[i] = True
        else:
            apart += 1
    return apart


def judge(got, want, distance, chosen):
    d = distance(got, want)
    if isinstance(d, float) and d <= 1e-4:
        return {"status": "match", "difference": d}
    facts = {"status": "differs", "difference": d}
    if chosen and len(got) == len(want) and got[0].shape == want[0].shape:
        n = rows_apart(got[0], want[0])
        facts["boxes"] = "%d of %d apart" % (n, want[0][..., 0].size)
        if n <= 0.02 * want[0][..., 0].size:
            facts["status"] = "match"
    return facts


def one(a, name, seed, turn, distance):
    draw = random.Random("yolo %s %d" % (name, seed))
    torch.manual_seed(draw.randrange(1 << 30))
    os.chdir(a.folder)
    a.say({"form": "build"})
    try:
        with suite.silent():
            model = build(name)
    except Exception as e:  # of the library
        a.write({"status": "not built", "why": " ".join(str(e).split())[:300]})
        return
    forms = list(FORMS)
    draw.shuffle(forms)
    for form in a.forms.split(",") if a.forms else forms[:4]:
        size = draw.choice(((320, 320), (256, 320), (224, 160)))
        if "cls" in name or "rtdetr" in name:
            size = (size[1], size[1])
        opset = draw.choice((16, 17, 17, 18, 20))
        facts = {"form": form, "opset": opset, "size": size}
        a.say(facts)
        try:
            with suite.silent():
                path = str(write(model, form, list(size), opset))
                shapes = [(1, 3, *size)]
                if form.startswith("dynamic"):
                    shapes.append((2, 3, size[0] + 32, size[1] + 64)
                                  if size[0] != size[1] else
                                  (2, 3, size[0] + 32, size[1] + 32))
                runs = [torch.rand(*s) for s in shapes]
                want = [reference(path, model, form, x) for x in runs]
        except (Exception, SystemExit) as e:  # of the exporter or its runtime
            a.write(dict(facts, status="not exported",
                         why=" ".join(str(e).split())[:300]))
            continue
        more = []
        if form.startswith("torchscript"):
            more = ["--input-shape=[%s]" % ",".join(map(str, runs[0].shape))]
        rc, text = suite.run(a.wconv, path, "-o", "case.infer", "-q", *more)
        if rc != 0:
            facts.update(status="refused" if rc == 2 else "crashed",
                         why=text[-600:])
        for x, w in zip(runs, want) if rc == 0 else ():
            rc, text, out = run_model(a, "case.infer", [x])
            if rc != 0:
                facts.update(status="run refused" if rc in (1, 2)
                             else "crashed", why=text[-600:])
                break
            got = outputs_of(a, "case.infer", out)
            facts.update(judge(got, w, distance, w[0].ndim == 3 and
                               w[0].shape[1] <= 500), shape=list(x.shape))
            if facts["status"] != "match":
                break
        a.write(facts)
