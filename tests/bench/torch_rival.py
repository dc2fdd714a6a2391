#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of gpu_peers.py: times one network on one GPU in the modes
that it is told of.

    torch_rival.py NETWORK STATE_DICT fp16|fp32

Each line of standard input is "MODE BATCH"; the answer is a line "RESULT " and
{"ms": median, "setup": seconds until it ran} or {"fault": text} in JSON.  It is
a process of its own so that a mode whose compiling takes too long can be given
up.  With "start IMAGES" it gives its first result and ends: what a fresh process
needs for that is the caller's to measure.

Modes: graph (batch normalisation folded, CUDA graph), compile (torch.compile,
reduce-overhead, frozen weights), auto (max-autotune, frozen weights).  fp16 runs
channels last; fp32 is strict, TF32 off, in both layouts, of which the faster one
counts.  cudnn.benchmark is on: cuDNN measures its algorithms.
"""
import copy
import json
import sys
import time

import torch
import torchvision


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
    torch._dynamo.reset()
    fast = torch.compile(net, mode=mode)

    def run():
        with torch.no_grad():
            fast(x)
    run()
    return run


def prepared(net, batch, mode, precision, layout):
    import torch.fx.experimental.optimization as optimization
    net = copy.deepcopy(net)
    if mode == "graph":
        net = optimization.fuse(net)
    kind = torch.float16 if precision == "fp16" else torch.float32
    net = net.to(kind).to(memory_format=layout)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(kind)
    x = x.to(memory_format=layout)
    if mode == "graph":
        return graphed(net, x)
    return compiled(net, x, {"compile": "reduce-overhead",
                             "auto": "max-autotune"}[mode])


def bench(net, batch, mode, precision):
    layouts = [torch.channels_last]
    if precision == "fp32":
        layouts.append(torch.contiguous_format)
    best, setup = None, 0.0
    for layout in layouts:
        begin = time.perf_counter()
        run = prepared(net, batch, mode, precision, layout)
        setup += time.perf_counter() - begin
        ms = median_ms(run)
        best = ms if best is None else min(best, ms)
    return {"ms": best, "setup": round(setup, 1)}


def load(name, state):
    net = getattr(torchvision.models, name)(weights=None).eval()
    net.load_state_dict(torch.load(state))
    return net.cuda()


def main():
    name, state, precision = sys.argv[1:]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    net = load(name, state)
    for line in sys.stdin:
        mode, batch = line.split()
        if mode == "start":
            torch.backends.cudnn.benchmark = False
            kind = {"fp16": torch.float16, "fp32": torch.float32}[precision]
            x = torch.zeros(int(batch), 3, 224, 224, device="cuda")
            with torch.no_grad():
                net.to(kind)(x.to(kind)).cpu()
            with open("/proc/self/status", encoding="utf-8") as file:
                print(*[n for n in file if n.startswith("VmHWM")])
            return
        try:
            answer = bench(net, int(batch), mode, precision)
        except Exception as fault:  # a mode that fails has no figure
            answer = {"fault": f"{type(fault).__name__}: {fault}"[:300]}
        print("\nRESULT " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
