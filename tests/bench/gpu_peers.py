#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer beside PyTorch on one GPU, in one run: whole networks, half precision,
channels last, median milliseconds a batch by the GPU's clock.

    gpu_peers.py --infer=PATH --wconv=PATH [--networks=resnet50,...]
                 [--batches=1,8,32,128,256] [--rivals=graph,auto]
                 [--markdown=FILE] [--check] [--profile=resnet50:1,...]

The weights are random, but batch normalisation has seen data, so that
activations are of ordinary size.  Both sides get the same weights.  infer runs
its CUDA graph on an input that is on the GPU (float, channels first: turning it
is part of the run); PyTorch runs on an input of its preferred type and layout.
PyTorch's modes: graph (batch normalisation folded, CUDA graph), compile
(torch.compile, reduce-overhead, frozen weights) and auto (max-autotune, frozen
weights).  --check compares infer's outputs in every precision with PyTorch's in
single precision.
"""
import argparse
import copy
import json
import os
import subprocess
import tempfile
import time

import numpy
import torch
import torchvision

NETWORKS = ["resnet50", "resnet18", "vgg16", "mobilenet_v2", "squeezenet1_1",
            "efficientnet_b0"]
# A precision is computed well where infer is at most so many times as far from
# double precision as PyTorch is with the same precision.  Single precision
# through three TF32 products keeps 21 bits of a product where IEEE keeps 24,
# and is good within 1e-5 of the largest output in any case.
SLACK = {"fp32": 8, "tf32": 3, "fp16": 3, "bf16": 3}
FLOOR = {"fp32": 1e-5}


def make_network(name):
    """A network in evaluation mode, its running statistics from noise."""
    torch.manual_seed(1)
    net = getattr(torchvision.models, name)(weights=None).cuda()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(32, 3, 224, 224, device="cuda"))
    return net.eval()


def convert(args, name, net, folder):
    pth = os.path.join(folder, name + ".pth")
    torch.save({k: v.cpu() for k, v in net.state_dict().items()}, pth)
    for dtype in ["fp16"] + (["fp32"] if args.check else []):
        subprocess.run([args.wconv, "-q", pth, "--arch=" + name,
                        "--dtype=" + dtype,
                        "-o", model_file(folder, name, dtype)], check=True)
    os.unlink(pth)


def model_file(folder, name, dtype="fp16"):
    return os.path.join(folder, f"{name}-{dtype}.infer")


# ---- infer -----------------------------------------------------------------

def run_infer(args, *options):
    done = subprocess.run([args.infer, "-d", "cuda", *options],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    if done.stderr.strip():
        print(done.stderr.strip(), flush=True)
    return done.stdout


def bench_infer(args, folder, name, batch):
    text = run_infer(args, "-m", model_file(folder, name), "--bench", "-v",
                     "--json", f"-b{batch}", "--precision=fp16",
                     f"--backend={args.backend}", f"--tune={args.tune}",
                     f"--duration={args.seconds}",
                     "--tune-cache=" + os.path.join(folder, "tuning.json"))
    return json.loads(text)["median_ms"]


def profile_infer(args, folder, what):
    name, batch = what.split(":")
    print(f"profile of {name}, batch {batch}")
    print(run_infer(args, "-m", model_file(folder, name), "--bench",
                    f"-b{batch}", "--precision=fp16", "--profile",
                    f"--backend={args.backend}", "--include-transfers",
                    "--duration=0.2s",
                    "--tune-cache=" + os.path.join(folder, "tuning.json")),
          flush=True)


def torch_output(net, x, precision):
    """PyTorch's own result in a precision, as single precision."""
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(
        precision, torch.float32)
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.no_grad():
        return copy.deepcopy(net).to(kind)(x.to(kind)).float().cpu().numpy()


def departure(got, want):
    return float(numpy.abs(got - want).max() / numpy.abs(want).max())


def check_infer(args, folder, name, net):
    """Every precision against double precision; returns faults."""
    torch.manual_seed(2)
    x = torch.randn(8, 3, 224, 224, device="cuda")
    with torch.no_grad():
        want = copy.deepcopy(net).double()(x.double()).float().cpu().numpy()
    x_file, y_file = (os.path.join(folder, f) for f in ("x.npy", "y.npy"))
    numpy.save(x_file, x.cpu().numpy())
    faults = 0
    for precision in SLACK:
        theirs = departure(torch_output(net, x, precision), want)
        try:
            run_infer(args, "-m", model_file(folder, name, "fp32"),
                      f"--precision={precision}", f"--load-inputs={x_file}",
                      f"--backend={args.backend}",
                      f"--export-output={y_file}",
                      "--tune-cache=" + os.path.join(folder, "tuning.json"))
        except RuntimeError as fault:
            print(f"check {name} {precision}: {fault}")
            faults += 1
            continue
        got = numpy.load(y_file)
        ours = departure(got, want)
        same = int((got.argmax(1) == want.argmax(1)).sum())
        good = ours <= max(SLACK[precision] * theirs,
                           FLOOR.get(precision, 0))
        faults += not good
        print(f"check {name} {precision}: {ours:.2e} of the largest output, "
              f"PyTorch {theirs:.2e} ({'ok' if good else 'TOO FAR'}), "
              f"{same} of {len(want)} first classes the same", flush=True)
    return faults


def start_to_result(args, folder, name):
    """Seconds and peak MiB of a fresh process to its first result."""
    x_file = os.path.join(folder, "x1.npy")
    numpy.save(x_file, numpy.zeros((1, 3, 224, 224), numpy.float32))
    command = [args.infer, "-m", model_file(folder, name), "-d", "cuda",
               "--precision=fp16", f"--backend={args.backend}",
               f"--load-inputs={x_file}", "--report-load-time",
               "--report-memory",
               f"--export-output={os.path.join(folder, 'y1.npy')}",
               "--tune-cache=" + os.path.join(folder, "tuning.json")]
    seconds, text = [], ""
    for _ in range(5):
        begin = time.perf_counter()
        text = subprocess.run(command, check=True, capture_output=True,
                              text=True).stdout
        seconds.append(time.perf_counter() - begin)
    print(f"{name}, fresh process to first result: median "
          f"{sorted(seconds)[2]:.3f} s, least {min(seconds):.3f} s\n{text}",
          flush=True)


# ---- PyTorch ---------------------------------------------------------------

def median_ms(run, least_ms=300.0):
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times = []
    while sum(times) < least_ms and len(times) < 300 or len(times) < 10:
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def graphed(net, x):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        net(x)
    return graph.replay


def compiled(net, x, mode):
    import torch._inductor.config
    torch._inductor.config.freezing = True
    fast = torch.compile(net, mode=mode)

    def run():
        with torch.no_grad():
            fast(x)
    run()
    return run


def bench_torch(net, batch, mode):
    import torch.fx.experimental.optimization as optimization
    torch._dynamo.reset()
    net = copy.deepcopy(net)
    if mode == "graph":
        net = optimization.fuse(net)
    net = net.half().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224, device="cuda").half()
    x = x.to(memory_format=torch.channels_last)
    if mode == "graph":
        return median_ms(graphed(net, x))
    return median_ms(compiled(net, x, "max-autotune" if mode == "auto"
                              else "reduce-overhead"))


# ---- the table -------------------------------------------------------------

def one_line(args, folder, name, net, batch):
    def attempt(label, function):
        try:
            return function()
        except Exception as fault:  # a rival that fails has no figure
            print(f"{name} batch {batch} {label}: {fault}", flush=True)
            return None
    ours = attempt("infer", lambda: bench_infer(args, folder, name, batch))
    rivals = {mode: attempt(mode, lambda m=mode: bench_torch(net, batch, m))
              for mode in args.rivals}
    best = min((ms for ms in rivals.values() if ms), default=None)
    cells = [name, str(batch), f"{ours:.4f}" if ours else "-",
             f"{1e3 * batch / ours:.0f}" if ours else "-"]
    cells += [f"{ms:.4f}" if ms else "-" for ms in rivals.values()]
    cells.append(f"{best / ours:.2f}" if best and ours else "-")
    line = "| " + " | ".join(cells) + " |"
    print(line, flush=True)
    return line


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--infer", required=True)
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batches", default="1,8,32,128,256")
    parser.add_argument("--rivals", default="graph,compile,auto")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--tune", default="on")
    parser.add_argument("--seconds", default="0.5s")
    parser.add_argument("--markdown")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--start", action="store_true",
                        help="time fresh processes on the first network")
    parser.add_argument("--profile", default="")
    parser.add_argument("--folder", help="where the models are kept")
    args = parser.parse_args()
    args.rivals = [m for m in args.rivals.split(",") if m]
    return args


def main():
    args = parse()
    torch.backends.cudnn.benchmark = True
    faults = 0
    head = ["network", "batch", "infer ms", "images/s"]
    head += [f"PyTorch {mode}" for mode in args.rivals] + ["ratio"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        for name in args.networks.split(","):
            net = make_network(name)
            convert(args, name, net, folder)
            if args.check:
                faults += check_infer(args, folder, name, net)
            for batch in map(int, args.batches.split(",")):
                lines.append(one_line(args, folder, name, net, batch))
            if args.start:
                start_to_result(args, folder, name)
                args.start = False
        for what in filter(None, args.profile.split(",")):
            profile_infer(args, folder, what)
    text = "\n".join(lines)
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
