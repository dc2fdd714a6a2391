#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train beside PyTorch on CIFAR-10: the same recipe on the same pictures, the
accuracy of both over several seeds.

    cifar_accuracy.py --train=PATH --data=DIR [--lossless=FILE.bin]
                      [--networks=resnet20-cifar:20,resnet18-cifar:6]
                      [--seeds=1,2,3] [--precision=bf16] [--jobs=2]
                      [--group=1] [--time=SECONDS]
                      [--json=FILE] [--markdown=FILE]

DIR holds train/CLASS/*.jpg and test/CLASS/*.jpg; FILE.bin is a CIFAR-10 batch,
the second test.  A network is a name of `train --list-archs` and epochs.

The recipe: SGD with Nesterov's momentum 0.9, batches of 128 (what does not fill
one is left out), one cycle of the learning rate up to 0.2 (0.1 for resnet50),
weight decay 5e-4 on weights alone, flips and crops from 4 pixels of black,
Kaiming's first weights, bf16 products with fp32 masters, or all of it in fp32.
PyTorch trains with autocast (in fp32: without it, and without TF32) and channels
last, its step recorded as a CUDA graph, several seeds beside each other in one
with --group; its pictures are on the GPU and are augmented there.

--arrays keeps PyTorch's pictures in a file, which --prepare makes beforehand.
--time stops starting new runs when so many seconds are over.  Every run adds a
line to the JSON file as it ends.
"""
import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

BATCH, DECAY, MOMENTUM = 128, 5e-4, 0.9


def peak(name):
    return 0.1 if name.startswith("resnet50") else 0.2


# ---- pictures --------------------------------------------------------

def read_jpeg(path):
    from PIL import Image
    with Image.open(path) as image:
        return numpy.asarray(image.convert("RGB")).transpose(2, 0, 1)


def read_folder(folder):
    classes = sorted(os.listdir(folder))
    paths, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            paths.append(os.path.join(folder, name, file))
            labels.append(label)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        pixels = list(pool.map(read_jpeg, paths, chunksize=512))
    return numpy.stack(pixels), numpy.array(labels)


def prepare(args, path):
    """All pictures in one file, for every process of PyTorch."""
    x, y = read_folder(os.path.join(args.data, "train"))
    tx, ty = read_folder(os.path.join(args.data, "test"))
    arrays = {"x": x, "y": y, "tx": tx, "ty": ty}
    if args.lossless:
        raw = numpy.fromfile(args.lossless, numpy.uint8).reshape(-1, 3073)
        arrays["lx"] = raw[:, 1:].reshape(-1, 3, 32, 32)
        arrays["ly"] = raw[:, 0].astype(numpy.int64)
    numpy.savez(path, **arrays)


# ---- PyTorch ---------------------------------------------------------

def make_network(name):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class OptionA(nn.Module):
        """A block of the paper's CIFAR networks."""

        def __init__(self, c, k):
            super().__init__()
            self.k, self.c = k, c
            self.conv1 = nn.Conv2d(c, k, 3, 1 if c == k else 2, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(k)
            self.conv2 = nn.Conv2d(k, k, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(k)

        def forward(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            if self.k != self.c:
                side = (self.k - self.c) // 2
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, side, side))
            return F.relu(x + y)

    if name == "resnet20-cifar":
        layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16),
                  nn.ReLU()]
        c = 16
        for k in (16, 32, 64):
            for _ in range(3):
                layers.append(OptionA(c, k))
                c = k
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        net = nn.Sequential(*layers)
    else:
        import torchvision
        net = getattr(torchvision.models, name.split("-")[0])(
            weights=None, num_classes=10)
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                    nonlinearity="relu")
    return net.cuda().to(memory_format=torch.channels_last)


def statistics_of(name):
    """Mean and deviation, as the built-in architectures state them."""
    if name == "resnet20-cifar":
        return (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Pictures:
    def __init__(self, name):
        import torch
        mean, std = statistics_of(name)
        self.mean = torch.tensor(mean).cuda().view(1, 3, 1, 1)
        self.std = torch.tensor(std).cuda().view(1, 3, 1, 1)

    def normal(self, x):
        import torch
        return ((x.float() / 255 - self.mean) / self.std).contiguous(
            memory_format=torch.channels_last)

    def vary(self, padded):
        """Cuts 32x32 out of 40x40 at random places and flips half."""
        import torch
        n = len(padded)
        at = torch.randint(0, 9, (2, n, 1), device="cuda")
        line = torch.arange(32, device="cuda")
        rows, cols = at[0] + line, at[1] + line
        flip = torch.rand(n, 1, device="cuda") < 0.5
        cols = torch.where(flip, cols.flip(1), cols)
        return padded[torch.arange(n, device="cuda")[:, None, None, None],
                      torch.arange(3, device="cuda")[:, None, None],
                      rows[:, None, :, None], cols[:, None, None, :]]


class Steps:
    """Forward, backward and update of several networks, each on a stream of
    its own; one CUDA graph from the tenth step on."""

    def __init__(self, nets, precision):
        import torch
        self.nets, self.half = nets, precision == "bf16"
        self.x = [torch.zeros(BATCH, 3, 32, 32, device="cuda").contiguous(
            memory_format=torch.channels_last) for _ in nets]
        self.y = [torch.zeros(BATCH, dtype=torch.long, device="cuda")
                  for _ in nets]
        self.rate = torch.zeros((), device="cuda")
        self.params = [list(net.parameters()) for net in nets]
        self.moments = [[torch.zeros_like(p) for p in params]
                        for params in self.params]
        self.stream = torch.cuda.Stream()
        self.branch = [torch.cuda.Stream() for _ in nets]
        self.graph, self.runs = None, 0

    def compute(self, k):
        import torch
        import torch.nn.functional as F
        params, moments = self.params[k], self.moments[k]
        matrix = [i for i, p in enumerate(params) if p.dim() > 1]
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half,
                            cache_enabled=False):
            out = self.nets[k](self.x[k])
        loss = F.cross_entropy(out.float(), self.y[k])
        grads = list(torch.autograd.grad(loss, params))
        with torch.no_grad():
            torch._foreach_add_([grads[i] for i in matrix],
                                [params[i] for i in matrix], alpha=DECAY)
            torch._foreach_mul_(moments, MOMENTUM)
            torch._foreach_add_(moments, grads)
            torch._foreach_add_(grads, moments, alpha=MOMENTUM)
            torch._foreach_mul_(grads, self.rate)
            torch._foreach_sub_(params, grads)

    def compute_all(self):
        import torch
        stem = torch.cuda.current_stream()
        for branch in self.branch:
            branch.wait_stream(stem)
        for k, branch in enumerate(self.branch):
            with torch.cuda.stream(branch):
                self.compute(k)
        for branch in self.branch:
            stem.wait_stream(branch)

    def run(self, x, y, rate):
        """x and y: the batches of all networks, one behind the other."""
        import torch
        for k in range(len(self.nets)):
            self.x[k].copy_(x[k * BATCH:(k + 1) * BATCH])
            self.y[k].copy_(y[k * BATCH:(k + 1) * BATCH])
        self.rate.fill_(rate)
        self.runs += 1
        if self.graph:
            self.graph.replay()
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.compute_all()
        torch.cuda.current_stream().wait_stream(self.stream)
        if self.runs == 10:
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.compute_all()


def accuracy(net, pictures, x, y, half):
    import torch
    net.eval()
    right = 0
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=half):
        for i in range(0, len(x), 500):
            out = net(pictures.normal(x[i:i + 500]))
            right += int((out.argmax(1) == y[i:i + 500]).sum())
    return right / len(x)


def torch_run(job):
    """The runs of some seeds side by side, in a process of its own."""
    import torch
    import torch.nn.functional as F
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    data = {k: torch.from_numpy(v).cuda()
            for k, v in numpy.load(job["arrays"]).items()}
    name, epochs, half = job["network"], job["epochs"], \
        job["precision"] == "bf16"
    pictures, nets = Pictures(name), []
    for seed in job["seeds"]:
        torch.manual_seed(seed)
        nets.append(make_network(name).train())
    torch.manual_seed(job["seeds"][0])
    padded = F.pad(data["x"], (4, 4, 4, 4))
    steps = Steps(nets, job["precision"])
    per_epoch = len(padded) // BATCH
    probe = torch.optim.SGD([torch.zeros(1, requires_grad=True)], peak(name))
    policy = torch.optim.lr_scheduler.OneCycleLR(
        probe, peak(name), per_epoch * epochs, cycle_momentum=False)
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(epochs):
        order = [torch.randperm(len(padded), device="cuda") for _ in nets]
        for i in range(per_epoch):
            b = torch.cat([o[i * BATCH:(i + 1) * BATCH] for o in order])
            steps.run(pictures.normal(pictures.vary(padded[b])), data["y"][b],
                      policy.get_last_lr()[0])
            probe.step()
            policy.step()
    torch.cuda.synchronize()
    seconds = time.monotonic() - start
    results = []
    for seed, net in zip(job["seeds"], nets):
        got = {"seed": seed, "seconds": seconds,
               "accuracy": accuracy(net, pictures, data["tx"], data["ty"],
                                    half)}
        if "lx" in data:
            got["lossless"] = accuracy(net, pictures, data["lx"], data["ly"],
                                       half)
        results.append(got)
    return results


# ---- train -----------------------------------------------------------

def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(words) + "\n" + done.stderr)
    return json.loads(done.stdout)


def our_run(args, job, folder):
    name, seed = job["network"], job["seeds"][0]
    out = os.path.join(folder, "%s-%s-%d.safetensors" % (
        name, job["precision"], seed))
    common = [args.train, "--arch=" + name, "--data=" + args.data, "--json",
              "--device=cuda", "--precision=" + job["precision"],
              "-b%d" % BATCH]
    start = time.monotonic()
    got = call(common + ["--epochs=%d" % job["epochs"],
                         "--seed=%d" % seed, "--optimizer=nesterov",
                         "--lr=%g" % peak(name), "--lr-policy=onecycle",
                         "--weight-decay=%g" % DECAY, "--augment=flip,crop:4",
                         "--snapshot=%de" % job["epochs"], "-o" + out,
                         "--log=" + out + ".csv"])
    result = {"accuracy": got["val_accuracy"], "seed": seed,
              "seconds": time.monotonic() - start}
    if args.lossless:
        result["lossless"] = call(common + ["--init-from=" + out, "--evaluate",
                                            "--val=" + args.lossless]
                                  )["val_accuracy"]
    os.remove(out)
    return [result]


# ---- all runs --------------------------------------------------------

def some(args, job, folder, arrays):
    """The results of a job: one run of train, or some of PyTorch."""
    if job["side"] == "train":
        results = our_run(args, job, folder)
    else:
        words = [sys.executable, os.path.abspath(__file__), "--torch-run",
                 json.dumps(dict(job, arrays=arrays))]
        results = call(words)
    fixed = {k: job[k] for k in ("network", "epochs", "precision", "side")}
    results = [dict(fixed, **r) for r in results]
    for r in results:
        print(json.dumps(r), flush=True)
        if args.json:
            with open(args.json, "a") as f:
                f.write(json.dumps(r) + "\n")
    return results


def cell(values):
    if not values:
        return "-", None
    mean = 100 * statistics.mean(values)
    spread = 100 * statistics.stdev(values) if len(values) > 1 else math.nan
    return "%.2f ± %.2f" % (mean, spread), mean


def standard_error(a, b):
    """Of the difference of two means, in points; NaN below two runs."""
    if len(a) < 2 or len(b) < 2:
        return math.nan
    return 100 * math.sqrt(statistics.variance(a) / len(a) +
                           statistics.variance(b) / len(b))


def table(results, lossless):
    lines = ["| network | precision | epochs | test | seeds | train, % | "
             "PyTorch, % | difference, with its standard error |",
             "|---|---|---|---|---|---|---|---|"]
    kinds = []
    for r in results:
        kind = (r["network"], r["precision"], r["epochs"])
        if kind not in kinds:
            kinds.append(kind)
    for kind in kinds:
        for key, test in [("accuracy", "10,000 JPEG")] + (
                [("lossless", "1,000 lossless")] if lossless else []):
            side = {s: [r[key] for r in results if r["side"] == s and kind == (
                r["network"], r["precision"], r["epochs"])]
                    for s in ("train", "torch")}
            ours, a = cell(side["train"])
            theirs, b = cell(side["torch"])
            difference = "%+.2f ± %.2f" % (a - b, standard_error(
                side["train"], side["torch"])) if a and b else "-"
            lines.append("| %s | %s | %d | %s | %d, %d | %s | %s | %s |" % (
                *kind, test, len(side["train"]), len(side["torch"]), ours,
                theirs, difference))
    return "\n".join(lines)


def list_jobs(args):
    """Runs of train one by one, those of PyTorch in groups of seeds; train's
    first, then PyTorch's, in turns."""
    seeds = [int(s) for s in args.seeds.split(",")]
    jobs = []
    for word in args.networks.split(","):
        name, epochs = word.split(":")
        kind = {"network": name, "epochs": int(epochs),
                "precision": args.precision}
        for i in range(0, len(seeds), args.group):
            group = seeds[i:i + args.group]
            if "torch" in args.sides:
                jobs.append(dict(kind, side="torch", seeds=group))
            if "train" in args.sides:
                jobs += [dict(kind, side="train", seeds=[s]) for s in group]
    return jobs


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train")
    p.add_argument("--data")
    p.add_argument("--lossless")
    p.add_argument("--networks", default="resnet20-cifar:20,resnet18-cifar:6,"
                   "resnet34-cifar:5,resnet50-cifar:4")
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--sides", default="train,torch")
    p.add_argument("--precision", default="bf16", choices=("bf16", "fp32"))
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--group", type=int, default=1,
                   help="seeds that PyTorch trains side by side")
    p.add_argument("--time", type=float, default=1e9)
    p.add_argument("--arrays", help="pictures prepared by an earlier run, or "
                   "the file to prepare")
    p.add_argument("--prepare", action="store_true",
                   help="only prepare --arrays")
    p.add_argument("--json")
    p.add_argument("--markdown")
    p.add_argument("--torch-run", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.torch_run:
        print(json.dumps(torch_run(json.loads(args.torch_run))))
        return
    start = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        arrays = args.arrays or os.path.join(folder, "pictures.npz")
        if not os.path.exists(arrays) and "torch" in args.sides:
            prepare(args, arrays)
            print("prepared: %.1f s" % (time.monotonic() - start), flush=True)
        if args.prepare:
            return
        jobs = list_jobs(args)

        def work(job):
            if time.monotonic() - start > args.time:
                return []
            return some(args, job, folder, arrays)

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = [r for rs in pool.map(work, jobs) for r in rs]
    text = table(results, args.lossless)
    print(text)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
