#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer beside PyTorch on one GPU, in one run: whole networks, median
milliseconds a batch by the GPU's clock.

    gpu_peers.py --infer=PATH --wconv=PATH [--networks=resnet50:1+8,vgg16,...]
                 [--batches=1,8,32,128,256] [--rivals=graph,compile,auto:1+128]
                 [--precision=fp16|fp32] [--tune=on,off] [--markdown=FILE]
                 [--json=FILE] [--check] [--start] [--profile=resnet50:1,...]
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
batch with all networks. --at-once lets several lines compile together, which
is the work of the CPU; while one is timed, the others are stopped. Networks
may be measured apart, one run a GPU, with --networks, and with some of the
batches only.

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

import torch_networks

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
    net, SIZES[name] = torch_networks.seen(name, "cuda")
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
    torch.save({k: v.cpu() for k, v in net.state_dict().items()}, pth)
    source = [pth, "--arch=" + name]
    if name not in NETWORKS:
        source = [exported(folder, name, net)]
    for dtype in {args.precision, "fp32" if args.check else args.precision}:
        subprocess.run([args.wconv, "-q", *source, "--dtype=" + dtype,
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

class Rival:
    """A process that compiles and times the modes of one line of the table."""

    def __init__(self, args, folder, row):
        self.row, self.limit = row, args.rival_limit
        name = row["network"]
        self.errors = os.path.join(
            folder, f"{file_name(name)}-{row['batch']}.txt")
        environment = dict(os.environ)
        if args.compile_cache:
            # One a line: PyTorch keeps what it measured in one file of the
            # folder, which processes side by side would write over.
            own = os.path.join(os.path.abspath(args.compile_cache),
                               f"{file_name(name)}-{row['batch']}")
            environment["TORCHINDUCTOR_CACHE_DIR"] = own
            environment["TRITON_CACHE_DIR"] = os.path.join(own, "triton")
        # Its errors go to a file: what compiling says fills pages.
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, RIVAL, name, state_file(folder, name),
                 args.precision, os.path.join(folder, "turn")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True, env=environment)
        self.rest, self.ended = b"", False

    def ask(self, mode):
        self.mode, self.found, self.wants_alone = mode, None, False
        self.begin = time.perf_counter()
        self.end = self.begin + self.limit
        self.say(f"{mode} {self.row['batch']}")

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.ended = True

    def signal(self, number):
        """To it and to the processes that compile for it."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def read(self):
        """Takes in what it has written."""
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.ended = not piece
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"RESULT "):
                self.found = json.loads(line[7:])
            elif line in (b"ALONE", b"SHARED"):
                self.wants_alone = line == b"ALONE"

    def result(self):
        """What it found, why there is nothing, or None as yet."""
        now = time.perf_counter()
        if self.found is None and (self.ended or
                                   self.process.poll() is not None):
            self.ended = True
            with open(self.errors, encoding="utf-8", errors="replace") as file:
                print(file.read()[-2000:], flush=True)
            self.found = {"fault": "the process ended"}
        if self.found is None and now > self.end:
            self.found = {"word": f"over {now - self.begin:.0f} s"}
        return self.found


def listen(rivals, seconds):
    streams = [r.process.stdout for r in rivals if not r.ended]
    heard = select.select(streams, [], [], seconds)[0] if streams else []
    for rival in rivals:
        if rival.process.stdout in heard:
            rival.read()


def let_alone(rival, others):
    """Lets one measure while the others stand still."""
    begin = time.perf_counter()
    for other in others:
        other.signal(signal.SIGSTOP)
    time.sleep(0.2)  # what they have queued runs out
    rival.say("go")
    while rival.wants_alone and rival.result() is None:
        listen([rival], 0.2)
    for other in others:
        other.signal(signal.SIGCONT)
        other.end += time.perf_counter() - begin


class Rivals:
    """All of them: one a line, which stays for the line's next mode."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.waiting = [(row, mode) for mode, batches in args.rivals
                        for batch in batches or args.batches
                        for row in RESULTS if row["batch"] == batch]
        self.idle, self.running = {}, []

    def over(self):
        return time.perf_counter() > BEGIN + self.args.budget

    def next(self):
        """The first that waits and whose process is not at work."""
        busy = [id(r.row) for r in self.running]
        for i, (row, _) in enumerate(self.waiting):
            if id(row) not in busy:
                return self.waiting.pop(i)
        return None

    def begin(self):
        while len(self.running) < self.args.at_once:
            task = self.next()
            if task is None:
                return
            row, mode = task
            rival = self.idle.pop(id(row), None) or Rival(
                self.args, self.folder, row)
            rival.ask(mode)
            self.running.append(rival)

    def end(self, rival, found):
        self.running.remove(rival)
        if "ms" in found or "fault" in found and not rival.ended:
            self.idle[id(rival.row)] = rival
        else:
            rival.close()
        rival.row["rivals"][rival.mode] = found
        print(f"{time.perf_counter() - BEGIN:.0f} s: {rival.row['network']} "
              f"batch {rival.row['batch']} PyTorch {rival.mode}: {found}",
              flush=True)
        save(self.args)

    def step(self):
        listen(self.running, 0.2)
        for rival in list(self.running):
            if rival.result() is None and rival.wants_alone:
                let_alone(rival, [r for r in self.running if r is not rival])
                rival.wants_alone = False
            if rival.result() is not None:
                self.end(rival, rival.result())

    def all(self):
        try:
            while (self.waiting or self.running) and not self.over():
                self.begin()
                self.step()
        finally:
            for rival in [*self.running, *self.idle.values()]:
                rival.close()
        for row, mode in [*self.waiting,
                          *((r.row, r.mode) for r in self.running)]:
            row["rivals"][mode] = {"word": "not reached"}
        save(self.args)


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
    known = [f["ms"] for f in row["rivals"].values() if "ms" in f]
    cells = [row["network"], str(row["batch"]), milliseconds(ours),
             f"{1e3 * row['batch'] / ours:.0f}" if ours else "-"]
    cells += [milliseconds(row["infer"][t]) for t in args.tunes[1:]]
    for mode in rival_modes(args):
        found = row["rivals"].get(mode, {"word": "-"})
        cells.append(milliseconds(found["ms"]) if "ms" in found
                     else found.get("word", "failed"))
    cells.append(f"{min(known) / ours:.2f}" if known and ours else "-")
    return "| " + " | ".join(cells) + " |"


def table_head(args):
    head = ["network", "batch", "infer ms", "images/s"]
    head += [f"infer, --tune={t}" for t in args.tunes[1:]]
    head += [f"PyTorch {mode}" for mode in rival_modes(args)]
    head += ["times as fast"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]


def one_network(args, folder, name, batches):
    try:
        net = make_network(name)
        convert(args, folder, name, net)
        faults = check_infer(args, folder, name, net) if args.check else 0
    except Exception as fault:  # the other networks are worth their figures
        print(f"{name}: {type(fault).__name__}: {fault}"[:600], flush=True)
        return 1
    del net
    torch.cuda.empty_cache()
    for batch in batches or args.batches:
        row = {"network": name, "batch": batch, "precision": args.precision,
               "rivals": {},
               "infer": {t: bench_infer(args, folder, name, batch, t)
                         for t in args.tunes}}
        RESULTS.append(row)
        print(f"{name} batch {batch} infer: {row['infer']}", flush=True)
    save(args)
    if args.start:
        start_to_result(args, folder, name)
        args.start = False
    return faults


def words(text):
    return [w for w in text.split(",") if w]


def with_batches(text):
    """[(word, batches)], none for all: "graph,auto:128+1"."""
    found = []
    for word in words(text):
        mode, _, batches = word.partition(":")
        found.append((mode, [int(b) for b in batches.split("+") if b]))
    return found


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--infer", required=True)
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--networks", type=with_batches,
                        default=with_batches(",".join(NETWORKS)))
    parser.add_argument("--batches", default="1,8,32,128,256",
                        type=lambda t: [int(w) for w in words(t)])
    parser.add_argument("--rivals", type=with_batches,
                        default=with_batches("graph,compile,auto"))
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
                        help="seconds after which rivals are given up")
    parser.add_argument("--at-once", type=int, default=1,
                        help="lines of PyTorch that compile together")
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


def main():
    args = parse()
    signal.signal(signal.SIGTERM, stop)
    torch.backends.cudnn.benchmark = True
    faults = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        for name, batches in args.networks:
            faults += one_network(args, folder, name, batches)
        for what in args.profile:
            profile_infer(args, folder, what)
        Rivals(args, folder).all()
    lines = table_head(args) + [table_line(args, row) for row in RESULTS]
    print("\n".join(lines))
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
