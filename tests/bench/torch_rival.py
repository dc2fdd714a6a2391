#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of gpu_peers.py: times one network on one GPU in the modes
that it is told of.

    torch_rival.py NETWORK STATE_DICT fp16|fp32 [TURN]

NETWORK is a name of torch_networks.py.

Each line of standard input is "MODE BATCH"; the answer is a line "RESULT " and
{"ms": median, "setup": seconds until it ran} or {"fault": text} in JSON.  Before
it measures, be it cuDNN's algorithms or the whole, it says "ALONE" and waits for
a line, whatever that says: the caller sees to it that nothing else has the GPU
until "SHARED" or the result.  It is a process of its own so that a mode whose
compiling takes too long can be given up.  With "start IMAGES" it gives its first
result and ends: what a fresh process needs for that is the caller's to measure.

Where several compile side by side for one GPU, TURN is a file that they share: who
measures kernels to choose among holds its lock, so that no other's run meanwhile.

Modes: graph (batch normalisation folded, CUDA graph), compile (torch.compile,
reduce-overhead, frozen weights), auto (max-autotune, frozen weights).  fp16 runs
channels last; fp32 is strict, TF32 off, in both layouts, of which the faster one
counts.  cudnn.benchmark is on: cuDNN measures its algorithms.
"""
import contextlib
import copy
import fcntl
import functools
import json
import sys
import time

import torch

import torch_networks

# Runs that are queued together, as infer's --bench queues them: what Python
# needs for a launch hides behind the run before.
QUEUED = 16


class Turn:
    """The lock of those that measure on one GPU; may be taken again by its
    holder."""

    def __init__(self):
        self.file, self.held = None, 0

    def open(self, path):
        self.file = open(path, "a", encoding="utf-8")

    def __enter__(self):
        if self.file and not self.held:
            fcntl.flock(self.file, fcntl.LOCK_EX)
        self.held += 1

    def __exit__(self, *_):
        self.held -= 1
        if self.file and not self.held:
            fcntl.flock(self.file, fcntl.LOCK_UN)


TURN = Turn()


def measure_in_turn():
    """All that Inductor chooses by measurement goes through these.  A kernel may
    be compiled when it first runs: that comes before its turn."""
    from torch._inductor.runtime import benchmarking

    def in_turn(benchmark_gpu):
        @functools.wraps(benchmark_gpu)
        def locked(self, run, *args, **options):
            run()
            torch.cuda.synchronize()
            with TURN:
                return benchmark_gpu(self, run, *args, **options)
        return locked

    for kind in (benchmarking.TritonBenchmarker,
                 benchmarking.InductorBenchmarker):
        kind.benchmark_gpu = in_turn(kind.benchmark_gpu)


def queued_ms(run):
    events = [torch.cuda.Event(True) for _ in range(QUEUED + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def median_ms(run, least_ms=500.0):
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times = []
    while sum(times) < least_ms:
        times += queued_ms(run)
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
    from torch._inductor.async_compile import AsyncCompile
    torch._inductor.config.freezing = True
    # Kernels are compiled by processes beside this one only if those are there
    # when the first is asked for; threads of this one take many times as long.
    AsyncCompile.warm_pool()
    getattr(AsyncCompile, "wait_pool_ready", lambda: None)()
    fast = torch.compile(net, mode=mode)

    def run():
        with torch.no_grad():
            fast(x)
    run()
    return run


@contextlib.contextmanager
def alone():
    """While nothing else has the GPU.  The turn comes first: none of those that
    are stopped meanwhile is in the middle of a measurement."""
    with TURN:
        print("\nALONE", flush=True)
        sys.stdin.readline()
        yield


# What a network's input measures, channels and sizes; main() sets it.
SIZE = [3, 224, 224]


def placed(net, batch, precision, layout):
    """A copy of the network and an input for it."""
    kind = torch.float16 if precision == "fp16" else torch.float32
    x = torch.randn(batch, *SIZE, device="cuda").to(kind)
    if len(SIZE) == 4 and layout == torch.channels_last:
        layout = torch.channels_last_3d
    return (copy.deepcopy(net).to(kind).to(memory_format=layout),
            x.to(memory_format=layout))


def layouts_of(precision):
    if precision == "fp32":
        return [torch.channels_last, torch.contiguous_format]
    return [torch.channels_last]


def choose_algorithms(net, batch, precision):
    """cuDNN measures and keeps them for the modes that compile."""
    with alone():
        for layout in layouts_of(precision):
            copied, x = placed(net, batch, precision, layout)
            with torch.no_grad():
                copied(x)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print("\nSHARED", flush=True)


def prepared(net, batch, mode, precision, layout):
    import torch.fx.experimental.optimization as optimization
    if mode == "graph":
        net = optimization.fuse(net)
    net, x = placed(net, batch, precision, layout)
    if mode == "graph":
        return graphed(net, x)
    return compiled(net, x, {"compile": "reduce-overhead",
                             "auto": "max-autotune"}[mode])


def bench(net, batch, mode, precision, chosen):
    torch._dynamo.reset()
    if mode != "graph" and batch not in chosen:
        choose_algorithms(net, batch, precision)
    chosen.add(batch)
    with contextlib.ExitStack() as stack:
        if mode == "graph":  # no compiling that others could do meanwhile
            stack.enter_context(alone())
        begin = time.perf_counter()
        runs = [prepared(net, batch, mode, precision, layout)
                for layout in layouts_of(precision)]
        torch.cuda.synchronize()
        setup = round(time.perf_counter() - begin, 1)
        if mode != "graph":
            stack.enter_context(alone())
        return {"ms": min(median_ms(run) for run in runs), "setup": setup}


def load(name, state):
    net, SIZE[:] = torch_networks.network(name)
    net = torch_networks.merged(net)
    net.load_state_dict(torch.load(state))
    return net.cuda()


def answer(measure):
    """Answers each line "MODE BATCH" of standard input."""
    for line in iter(sys.stdin.readline, ""):
        mode, batch = line.split()
        try:
            found = measure(mode, int(batch))
        except Exception as fault:  # a mode that fails has no figure
            found = {"fault": f"{type(fault).__name__}: {fault}"[:300]}
        print("\nRESULT " + json.dumps(found), flush=True)


def first_result(net, batch, precision):
    """The first result, and the peak of the process's memory."""
    torch.backends.cudnn.benchmark = False
    kind = {"fp16": torch.float16, "fp32": torch.float32}[precision]
    x = torch.zeros(batch, *SIZE, device="cuda")
    with torch.no_grad():
        net.to(kind)(x.to(kind)).cpu()
    with open("/proc/self/status", encoding="utf-8") as file:
        print(*[n for n in file if n.startswith("VmHWM")])
    sys.exit()


def main():
    name, state, precision, *turn = sys.argv[1:]
    if turn:
        TURN.open(turn[0])
        measure_in_turn()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    net, chosen = load(name, state), set()
    answer(lambda mode, batch: first_result(net, batch, precision)
           if mode == "start" else bench(net, batch, mode, precision, chosen))


if __name__ == "__main__":
    main()
