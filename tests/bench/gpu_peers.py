#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer beside PyTorch on one GPU, in one run: whole networks, median
milliseconds a batch by the GPU's clock.

    gpu_peers.py --infer=PATH --wconv=PATH [--networks=resnet50:1+8,vgg16,...]
                 [--batches=1,8,32,128,256] [--rivals=graph,compile,auto:1+128]
                 [--precision=fp16|fp32] [--tune=on,off] [--markdown=FILE]
                 [--json=FILE] [--check] [--start] [--profile=resnet50:1,...]
                 [--profile-below=RATIO]
                 [--rival-limit=SECONDS] [--budget=SECONDS]
                 [--at-once=N] [--compile-cache=FOLDER]

A network is a name of torch_networks.py, of torchvision or timm; those that
wconv has no name for are exported to ONNX. The weights are random, but batch
normalisation has seen data, so that activations are of ordinary size. Both
sides get the same weights. infer runs its CUDA graph on an input that is on
the GPU (float, channels first: turning it is part of the run); PyTorch runs on
an input of its preferred type and layout, in the modes of torch_rival.py, each
line of the table in a process of its own: a mode that needs more than
--rival-limit to compile and run is given up and the table says so; what
--budget leaves no time for is "not reached". A mode may be asked for some of
the batches only, and more than once; lines are begun in the order given, each
batch with all networks. --at-once lets several networks be converted, and
several lines compile together, which is the work of the CPU; while one is timed,
the others are stopped. Networks may be measured apart, one run a GPU, with --networks, and with
some of the batches only.

--profile-below=RATIO prints infer's steps for the lines on which it is not so
many times as fast as the best rival.

--tune=on,off adds a column of infer without measured kernels.  --check compares
infer's outputs in every precision, and PyTorch's, with double precision.
--start times fresh processes of both to their first result on the first network.
"""
import argparse
import concurrent.futures
import copy
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time

BEGIN = time.perf_counter()  # loading PyTorch counts

import numpy
import torch

import rivals
import torch_networks
import torch_rival

NETWORKS = ["resnet50", "resnet18", "vgg16", "mobilenet_v2", "squeezenet1_1",
            "efficientnet_b0"]
# fp32 is good within this much of the largest output, whatever PyTorch does.
FP32_BOUND = 1e-5
# The others are good where infer is at most so many times as far from double
# precision as PyTorch is with the same precision.
TIMES_PYTORCH = {"tf32": 3, "fp16": 3, "bf16": 3}
RIVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "torch_rival.py")


# What each network's input measures, channels and sizes.
SIZES = {}


def make_network(name):
    """A network in evaluation mode, its running statistics from noise."""
    torch.manual_seed(1)
    net, SIZES[name] = torch_networks.seen(name, "cuda", torch_rival.TURN)
    return net


def file_name(name):
    return name.replace("/", "-")


def state_file(folder, name):
    return os.path.join(folder, file_name(name) + ".pth")


def model_file(folder, name, dtype):
    return os.path.join(folder, f"{file_name(name)}-{dtype}.infer")


def exported(folder, name, net):
    """An ONNX file of any batch, for networks that wconv has no name for."""
    path = os.path.join(folder, file_name(name) + ".onnx")
    torch.onnx.export(copy.deepcopy(net).cpu(), (torch.randn(2, *SIZES[name]),),
                      path, dynamo=False, input_names=["x"],
                      output_names=["y"],
                      dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    return path


def convert(args, folder, name, net):
    pth = state_file(folder, name)
    state = net.state_dict()  # its metadata, which some networks ask for, too
    for key in state:
        state[key] = state[key].cpu()
    torch.save(state, pth)
    source = [pth, "--arch=" + name]
    if name not in NETWORKS:
        source = [exported(folder, name, net)]
    for dtype in {args.precision, "fp32" if args.check else args.precision}:
        subprocess.run([args.wconv, "-q", *source, "--dtype=" + dtype,
                        "-o", model_file(folder, name, dtype)], check=True)


# ---- infer -----------------------------------------------------------------

def infer_command(args, folder, *options):
    return [args.infer, "-d", "cuda", f"--backend={args.backend}",
            "--tune-cache=" + os.path.join(folder, "tuning.json"), *options]


def run_infer(args, folder, *options):
    done = subprocess.run(infer_command(args, folder, *options),
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    if done.stderr.strip():
        print(done.stderr.strip(), flush=True)
    return done.stdout


def bench_command(args, folder, name, batch, tune):
    return infer_command(args, folder,
                         "-m", model_file(folder, name, args.precision),
                         "--bench", "-v", "--json", f"-b{batch}",
                         f"--precision={args.precision}", f"--tune={tune}",
                         f"--duration={args.seconds}")


def take_time(task, code, out, err):
    """Enters infer's milliseconds, None where it failed, in a line."""
    row, tune = task
    if err.strip():
        print(err.strip(), flush=True)
    try:
        if code:
            raise ValueError(f"exit {code}")
        row["infer"][tune] = json.loads(out)["median_ms"]
    except (ValueError, KeyError) as fault:
        row["infer"][tune] = None
        print(f"{row['network']} batch {row['batch']}: {fault}")
    print(f"{time.perf_counter() - BEGIN:.0f} s: {row['network']} batch "
          f"{row['batch']} infer: {row['infer']}", flush=True)


def profile_infer(args, folder, name, batch):
    print(f"profile of {name}, batch {batch}")
    print(run_infer(args, folder,
                    "-m", model_file(folder, name, args.precision), "--bench",
                    f"-b{batch}", f"--precision={args.precision}", "--profile",
                    "--include-transfers", "--duration=0.2s"), flush=True)


# ---- accuracy --------------------------------------------------------------

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


def verdict(precision, distance, theirs):
    """Whether it is good, and against what."""
    if precision == "fp32":
        return distance <= FP32_BOUND, f"bound {FP32_BOUND:.0e}"
    times = TIMES_PYTORCH[precision]
    return distance <= times * theirs, f"bound {times} x PyTorch's"


def infer_output(args, folder, name, precision):
    x_file, y_file = (os.path.join(folder, f) for f in ("x.npy", "y.npy"))
    run_infer(args, folder, "-m", model_file(folder, name, "fp32"),
              f"--precision={precision}", f"--load-inputs={x_file}",
              f"--export-output={y_file}")
    return numpy.load(y_file)


def check_infer(args, folder, name, net):
    """Every precision against double precision; returns faults."""
    torch.manual_seed(2)
    x = torch.randn(8, *SIZES[name], device="cuda")
    with torch.no_grad():
        want = copy.deepcopy(net).double()(x.double()).float().cpu().numpy()
    numpy.save(os.path.join(folder, "x.npy"), x.cpu().numpy())
    faults = 0
    for precision in ("fp32", *TIMES_PYTORCH):
        theirs = departure(torch_output(net, x, precision), want)
        try:
            got = infer_output(args, folder, name, precision)
        except RuntimeError as fault:
            print(f"check {name} {precision}: {fault}")
            faults += 1
            continue
        distance = departure(got, want)
        good, bound = verdict(precision, distance, theirs)
        same = int((got.argmax(1) == want.argmax(1)).sum())
        faults += not good
        print(f"check {name} {precision}: infer {distance:.2e} of the largest "
              f"output, PyTorch {theirs:.2e}; {bound}: "
              f"{'within' if good else 'OVER'}; "
              f"{same} of {len(want)} first classes the same", flush=True)
    return faults


# ---- fresh processes -------------------------------------------------------

def fresh(command, text=""):
    """Seconds of a process, and what it says: its own peak of memory, since
    the kernel counts that of the process which started it to its own."""
    begin = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: exit {done.returncode}")
    return time.perf_counter() - begin, done.stdout


def start_to_result(args, folder, name):
    """Both sides, five times and three times: the median of each."""
    x_file = os.path.join(folder, "x1.npy")
    numpy.save(x_file, numpy.zeros((1, *SIZES[name]), numpy.float32))
    ours = [args.infer, "-m", model_file(folder, name, args.precision),
            "-d", "cuda", f"--precision={args.precision}",
            f"--backend={args.backend}", f"--load-inputs={x_file}",
            "--report-memory",
            f"--export-output={os.path.join(folder, 'y1.npy')}",
            "--tune-cache=" + os.path.join(folder, "tuning.json")]
    fresh(ours)  # measures kernels where the cache does not have them yet
    rival = [sys.executable, RIVAL, name, state_file(folder, name),
             args.precision]
    for label, command, text, times in (("infer", ours, "", 5),
                                        ("PyTorch", rival, "start 1\n", 3)):
        runs = [fresh(command, text) for _ in range(times)]
        seconds = sorted(r[0] for r in runs)
        print(f"start of {label}, {name}: fresh process to first result "
              f"{seconds[times // 2]:.3f} s (least {seconds[0]:.3f} s)\n"
              f"{runs[-1][1].strip()}", flush=True)


# ---- PyTorch ---------------------------------------------------------------

def make_rival(args, folder):
    """What makes the process of a line."""
    def make(row):
        name = row["network"]
        own = f"{file_name(name)}-{row['batch']}"
        # Several share the cores: each needs few processes that compile.
        environment = {"TORCHINDUCTOR_COMPILE_THREADS":
                       str(max(2, (os.cpu_count() or 2) // args.at_once))}
        if args.compile_cache:
            # One a line: PyTorch keeps what it measured in one file of the
            # folder, which processes side by side would write over.
            kept = os.path.join(os.path.abspath(args.compile_cache), own)
            environment["TORCHINDUCTOR_CACHE_DIR"] = kept
            environment["TRITON_CACHE_DIR"] = os.path.join(kept, "triton")
        return rivals.Rival(
            row, [RIVAL, name, state_file(folder, name), args.precision,
                  os.path.join(folder, "turn")],
            args.rival_limit, os.path.join(folder, own + ".txt"), environment)
    return make


# ---- the table -------------------------------------------------------------

RESULTS = []


def save(args):
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(RESULTS, file, indent=1)


def milliseconds(ms):
    return f"{ms:.4f}" if ms else "-"


def rival_modes(args):
    return list(dict.fromkeys(mode for mode, _ in args.rivals))


def table_line(args, row):
    ours = row["infer"][args.tunes[0]]
    best = best_rival(row)
    cells = [row["network"], str(row["batch"]), milliseconds(ours),
             f"{1e3 * row['batch'] / ours:.0f}" if ours else "-"]
    cells += [milliseconds(row["infer"][t]) for t in args.tunes[1:]]
    for mode in rival_modes(args):
        found = row["rivals"].get(mode, {"word": "-"})
        cells.append(milliseconds(found["ms"]) if "ms" in found
                     else found.get("word", "failed"))
    cells.append(f"{best / ours:.2f}" if best and ours else "-")
    return "| " + " | ".join(cells) + " |"


def table_head(args):
    head = ["network", "batch", "infer ms", "images/s"]
    head += [f"infer, --tune={t}" for t in args.tunes[1:]]
    head += [f"PyTorch {mode}" for mode in rival_modes(args)]
    head += ["times as fast"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]


def prepare(args, folder, name):
    """Writes a network's weights and its models; returns its input's size."""
    if not torch_rival.TURN.file:
        os.nice(5)
        torch.set_num_threads(2)
        torch_rival.TURN.open(os.path.join(folder, "turn"))
    convert(args, folder, name, make_network(name))
    return SIZES[name]


def lines_of(args, name, batches):
    return [{"network": name, "batch": batch, "precision": args.precision,
             "rivals": {}, "infer": dict.fromkeys(args.tunes)}
            for batch in batches or args.batches]


def check(args, folder, name):
    net, _ = torch_rival.load(name, state_file(folder, name))
    return check_infer(args, folder, name, net)


class Queue:
    """Networks are prepared by processes beside each other; those that are ready
    are given to infer and to the rivals."""

    def __init__(self, args, folder, pool):
        self.args, self.folder = args, folder
        self.ours = rivals.Ours(os.path.join(folder, "turn"), take_time)
        self.theirs = rivals.Rivals(
            make_rival(args, folder), args.at_once, BEGIN + args.budget,
            lambda: save(args), self.ours, self.more)
        self.order = [name for name, _ in args.networks]
        self.modes = [(mode, batch) for mode, batches in args.rivals
                      for batch in batches or args.batches]
        self.failed = 0
        self.coming = {pool.submit(prepare, args, folder, name):
                       (name, batches) for name, batches in args.networks}

    def more(self):
        for made in [m for m in self.coming if m.done()]:
            name, batches = self.coming.pop(made)
            try:
                SIZES[name] = made.result()
            except Exception as fault:  # the others are worth their figures
                print(f"{name}: {type(fault).__name__}: {fault}"[:600],
                      flush=True)
                self.failed += 1
                continue
            print(f"{time.perf_counter() - BEGIN:.0f} s: {name} is prepared",
                  flush=True)
            self.add(lines_of(self.args, name, batches))
        return bool(self.coming)

    def place(self, row):
        return (self.args.batches.index(row["batch"]),
                self.order.index(row["network"]))

    def add(self, rows):
        RESULTS.extend(rows)
        RESULTS.sort(key=lambda row: self.place(row)[::-1])
        for row in rows:
            for tune in self.args.tunes:
                self.ours.add((row, tune),
                              bench_command(self.args, self.folder,
                                            row["network"], row["batch"],
                                            tune))
            for mode, batch in self.modes:
                if batch == row["batch"]:
                    self.theirs.add(row, mode)
        self.ours.waiting.sort(key=lambda task: self.place(task[0][0]))
        self.theirs.waiting.sort(key=lambda task: (
            self.modes.index((task[1], task[0]["batch"])),
            self.place(task[0])))


def measure(args, folder):
    """All networks; returns how many could not be prepared."""
    with concurrent.futures.ProcessPoolExecutor(
            args.at_once, multiprocessing.get_context("spawn")) as pool:
        queue = Queue(args, folder, pool)
        queue.theirs.all()
        pool.shutdown(cancel_futures=True)
    return queue.failed


def best_rival(row):
    return min((f["ms"] for f in row["rivals"].values() if "ms" in f),
               default=None)


def profile_behind(args, folder):
    for row in RESULTS:
        ours, best = row["infer"][args.tunes[0]], best_rival(row)
        if ours and best and best < args.profile_below * ours:
            profile_infer(args, folder, row["network"], row["batch"])


def words(text):
    return [w for w in text.split(",") if w]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--infer", required=True)
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--networks", type=rivals.with_batches,
                        default=rivals.with_batches(",".join(NETWORKS)))
    parser.add_argument("--batches", default="1,8,32,128,256",
                        type=lambda t: [int(w) for w in words(t)])
    parser.add_argument("--rivals", type=rivals.with_batches,
                        default=rivals.with_batches("graph,compile,auto"))
    parser.add_argument("--precision", choices=["fp16", "fp32"],
                        default="fp16")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--tune", dest="tunes", type=words, default=["on"])
    parser.add_argument("--seconds", default="0.5s")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--profile", type=words, default=[])
    parser.add_argument("--profile-below", type=float, default=0)
    parser.add_argument("--folder", help="where the models are kept")
    parser.add_argument("--rival-limit", type=float, default=600)
    parser.add_argument("--budget", type=float, default=1e9,
                        help="seconds after which rivals are given up")
    parser.add_argument("--at-once", type=int, default=1,
                        help="networks that are converted, and lines of "
                             "PyTorch that compile, together")
    parser.add_argument("--compile-cache",
                        help="folder that keeps what PyTorch measured and "
                             "compiled, for a later run")
    args = parser.parse_args()
    for _, batches in args.rivals + args.networks:
        if not set(batches) <= set(args.batches):
            parser.error("a batch is named that --batches does not")
    return args


def stop(*_):
    """A signal ends the processes of the rivals too."""
    raise SystemExit(143)


def table(args):
    lines = table_head(args) + [table_line(args, row) for row in RESULTS]
    print("\n".join(lines), flush=True)
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def main():
    args = parse()
    signal.signal(signal.SIGTERM, stop)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        faults = measure(args, folder)
        table(args)
        names = [name for name, _ in args.networks if name in SIZES]
        if args.check:
            faults += sum(check(args, folder, name) for name in names)
        if args.start and names:
            start_to_result(args, folder, names[0])
        for what in args.profile:
            name, batch = what.split(":")
            profile_infer(args, folder, name, batch)
        profile_behind(args, folder)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
