#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of train_peers.py: times training steps of one network on one
GPU in the modes that it is told of.

    torch_train_rival.py NETWORK TURN

It speaks as torch_rival.py does, and measures in turn.  Modes: eager, graph
(eager recorded as one CUDA graph), compile (torch.compile as it comes), reduce
(torch.compile with CUDA graphs) and auto (max-autotune, with its CUDA graphs).
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import torch_networks
import torch_rival

WARMUP = 15
STEPS = 50
MODES = {"compile": "default", "reduce": "reduce-overhead",
         "auto": "max-autotune"}


class Trained:
    """A network, a batch, and its optimizer."""

    def __init__(self, name, batch, mode):
        torch.manual_seed(1)
        net, size, classes = torch_networks.for_training(name)
        self.net = net.cuda().to(memory_format=torch.channels_last).train()
        self.x = torch.randn(batch, *size, device="cuda").to(
            memory_format=torch.channels_last)
        self.y = torch.randint(classes, (batch,), device="cuda")
        self.sgd = torch.optim.SGD(self.net.parameters(), 0.01, 0.9,
                                   weight_decay=1e-4, fused=True)
        self.run = self.net
        if mode in MODES:
            self.run = torch.compile(self.net, mode=MODES[mode])
        self.graph = None
        if mode == "graph":
            self.record()

    def step(self):
        self.sgd.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(self.run(self.x), self.y)
        loss.backward()
        self.sgd.step()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.sgd.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph

    def once(self):
        if self.graph:
            self.graph.replay()
        else:
            self.step()


def bench(name, batch, mode):
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    begin = time.perf_counter()
    trained = Trained(name, batch, mode)
    trained.once()  # compiles
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # others need it until this one is measured
    setup = round(time.perf_counter() - begin, 1)
    with torch_rival.alone():
        for _ in range(WARMUP):
            trained.once()
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True)
                 for _ in range(STEPS + 1)]
        marks[0].record()
        for mark in marks[1:]:
            trained.once()
            mark.record()
        torch.cuda.synchronize()
    return {"ms": statistics.median(a.elapsed_time(b)
                                    for a, b in zip(marks, marks[1:])),
            "setup": setup}


def main():
    name, turn = sys.argv[1:]
    torch_rival.TURN.open(turn)
    torch_rival.measure_in_turn()
    torch_rival.answer(lambda mode, batch: bench(name, batch, mode))


if __name__ == "__main__":
    main()
