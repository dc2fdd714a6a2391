#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer beside PyTorch on one GPU, in one run: whole networks, median
milliseconds a batch by the GPU's clock.

    gpu_peers.py --infer=PATH --wconv=PATH [--networks=resnet50,...]
                 [--batches=1,8,32,128,256] [--rivals=graph,compile,auto:1+128]
                 [--precision=fp16|fp32] [--tune=on,off] [--markdown=FILE]
                 [--json=FILE] [--check] [--start] [--profile=resnet50:1,...]
                 [--rival-limit=SECONDS] [--budget=SECONDS]
                 [--compile-cache=FOLDER]

The weights are random, but batch normalisation has seen data, so that
activations are of ordinary size.  Both sides get the same weights.  infer runs
its CUDA graph on an input that is on the GPU (float, channels first: turning it
is part of the run); PyTorch runs on an input of its preferred type and layout,
in the modes of torch_rival.py, as a process of its own: a mode that needs more
than --rival-limit to compile and run is given up and the table says so; what
--budget leaves no time for is "not reached".  A mode may be asked for some of
the batches only; they are measured in the order given.  Networks may be measured
apart, one run a GPU, with --networks.

--tune=on,off adds a column of infer without measured kernels.  --check compares
infer's outputs in every precision, and PyTorch's, with double precision.
--start times fresh processes of both to their first result on the first network.
"""
import argparse
import copy
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

BEGIN = time.perf_counter()  # loading PyTorch counts

import numpy
import torch
import torchvision

NETWORKS = ["resnet50", "resnet18", "vgg16", "mobilenet_v2", "squeezenet1_1",
            "efficientnet_b0"]
# fp32 is good within this much of the largest output, whatever PyTorch does.
FP32_BOUND = 1e-5
# The others are good where infer is at most so many times as far from double
# precision as PyTorch is with the same precision.
TIMES_PYTORCH = {"tf32": 3, "fp16": 3, "bf16": 3}
RIVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "torch_rival.py")


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


def state_file(folder, name):
    return os.path.join(folder, name + ".pth")


def model_file(folder, name, dtype):
    return os.path.join(folder, f"{name}-{dtype}.infer")


def convert(args, folder, name, net):
    pth = state_file(folder, name)
    torch.save({k: v.cpu() for k, v in net.state_dict().items()}, pth)
    for dtype in {args.precision, "fp32" if args.check else args.precision}:
        subprocess.run([args.wconv, "-q", pth, "--arch=" + name,
                        "--dtype=" + dtype,
                        "-o", model_file(folder, name, dtype)], check=True)


# ---- infer -----------------------------------------------------------------

def run_infer(args, folder, *options):
    done = subprocess.run(
        [args.infer, "-d", "cuda", f"--backend={args.backend}",
         "--tune-cache=" + os.path.join(folder, "tuning.json"), *options],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    if done.stderr.strip():
        print(done.stderr.strip(), flush=True)
    return done.stdout


def bench_infer(args, folder, name, batch, tune):
    """Milliseconds, or None where it fails."""
    try:
        text = run_infer(args, folder,
                         "-m", model_file(folder, name, args.precision),
                         "--bench", "-v", "--json", f"-b{batch}",
                         f"--precision={args.precision}", f"--tune={tune}",
                         f"--duration={args.seconds}")
        return json.loads(text)["median_ms"]
    except (RuntimeError, ValueError, KeyError) as fault:
        print(f"{name} batch {batch} infer: {fault}", flush=True)
        return None


def profile_infer(args, folder, what):
    name, batch = what.split(":")
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
    x = torch.randn(8, 3, 224, 224, device="cuda")
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
    numpy.save(x_file, numpy.zeros((1, 3, 224, 224), numpy.float32))
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

class Rival:
    """A process that times one network; one that is given up is replaced."""

    def __init__(self, args, folder, name):
        self.command = [sys.executable, RIVAL, name,
                        state_file(folder, name), args.precision]
        self.limit, self.budget = args.rival_limit, args.budget
        self.errors = os.path.join(folder, "rival.txt")
        self.process = None

    def open(self):
        """Its errors go to a file: what compiling says fills pages."""
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True)

    def close(self):
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        self.process = None

    def answer(self, end):
        """The next RESULT, None at the end of the time or of the process."""
        out, rest = self.process.stdout, b""
        while time.perf_counter() < end:
            if not select.select([out], [], [], 0.2)[0]:
                continue
            piece = os.read(out.fileno(), 65536)
            if not piece:
                with open(self.errors, encoding="utf-8",
                          errors="replace") as file:
                    print(file.read()[-2000:], flush=True)
                return {"fault": "the process ended"}
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"RESULT "):
                    return json.loads(line[7:])
        return None

    def time(self, mode, batch):
        """{"ms"}, {"fault"} or {"word"}: why there is no figure."""
        now = time.perf_counter()
        left = BEGIN + self.budget - now
        if left <= 0:
            return {"word": "not reached"}
        if not self.process:
            self.open()
        self.process.stdin.write(f"{mode} {batch}\n".encode())
        self.process.stdin.flush()
        answer = self.answer(now + min(left, self.limit))
        if answer is None or answer.get("fault") == "the process ended":
            self.close()
        if answer is None:
            return {"word": f"over {self.limit:.0f} s" if left > self.limit
                    else "not reached"}
        return answer


def time_rivals(args, folder, name, rows):
    rival = Rival(args, folder, name)
    try:
        for mode, batches in args.rivals.items():
            for batch in batches or args.batches:
                found = rival.time(mode, batch)
                rows[batch]["rivals"][mode] = found
                print(f"{name} batch {batch} PyTorch {mode}: {found}",
                      flush=True)
                save(args)
    finally:
        rival.close()


# ---- the table -------------------------------------------------------------

RESULTS = []


def save(args):
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(RESULTS, file, indent=1)


def milliseconds(ms):
    return f"{ms:.4f}" if ms else "-"


def table_line(args, row):
    ours = row["infer"][args.tunes[0]]
    known = [f["ms"] for f in row["rivals"].values() if "ms" in f]
    cells = [row["network"], str(row["batch"]), milliseconds(ours),
             f"{1e3 * row['batch'] / ours:.0f}" if ours else "-"]
    cells += [milliseconds(row["infer"][t]) for t in args.tunes[1:]]
    for mode in args.rivals:
        found = row["rivals"].get(mode, {"word": "-"})
        cells.append(milliseconds(found["ms"]) if "ms" in found
                     else found.get("word", "failed"))
    cells.append(f"{min(known) / ours:.2f}" if known and ours else "-")
    return "| " + " | ".join(cells) + " |"


def table_head(args):
    head = ["network", "batch", "infer ms", "images/s"]
    head += [f"infer, --tune={t}" for t in args.tunes[1:]]
    head += [f"PyTorch {mode}" for mode in args.rivals] + ["times as fast"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]


def one_network(args, folder, name):
    net = make_network(name)
    convert(args, folder, name, net)
    faults = check_infer(args, folder, name, net) if args.check else 0
    del net
    torch.cuda.empty_cache()
    rows = {}
    for batch in args.batches:
        rows[batch] = {"network": name, "batch": batch,
                       "precision": args.precision, "rivals": {},
                       "infer": {t: bench_infer(args, folder, name, batch, t)
                                 for t in args.tunes}}
        RESULTS.append(rows[batch])
        print(f"{name} batch {batch} infer: {rows[batch]['infer']}", flush=True)
    save(args)
    if args.start:
        start_to_result(args, folder, name)
        args.start = False
    if args.rivals:
        time_rivals(args, folder, name, rows)
    return faults


def words(text):
    return [w for w in text.split(",") if w]


def modes(text):
    """{mode: batches}, none for all: "graph,auto:128+1"."""
    found = {}
    for word in words(text):
        mode, _, batches = word.partition(":")
        found[mode] = [int(b) for b in batches.split("+") if b]
    return found


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--infer", required=True)
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--networks", type=words, default=NETWORKS)
    parser.add_argument("--batches", default="1,8,32,128,256",
                        type=lambda t: [int(w) for w in words(t)])
    parser.add_argument("--rivals", type=modes,
                        default=modes("graph,compile,auto"))
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
    parser.add_argument("--folder", help="where the models are kept")
    parser.add_argument("--rival-limit", type=float, default=600)
    parser.add_argument("--budget", type=float, default=1e9,
                        help="seconds after which no rival is begun")
    parser.add_argument("--compile-cache",
                        help="folder that keeps what PyTorch compiled")
    args = parser.parse_args()
    for batches in args.rivals.values():
        if not set(batches) <= set(args.batches):
            parser.error("--rivals names a batch that --batches does not")
    return args


def stop(*_):
    """A signal ends the processes of the rivals too."""
    raise SystemExit(143)


def main():
    args = parse()
    if args.compile_cache:
        folder = os.path.abspath(args.compile_cache)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    signal.signal(signal.SIGTERM, stop)
    torch.backends.cudnn.benchmark = True
    faults = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        for name in args.networks:
            faults += one_network(args, folder, name)
        for what in args.profile:
            profile_infer(args, folder, what)
    lines = table_head(args) + [table_line(args, row) for row in RESULTS]
    print("\n".join(lines))
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
