#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws hostile files of every reader and measures what wconv takes for them.

usage: tests/analyze/hostile.py FOLDER [--wconv FILE] [--seed S] [--count N]
                                [--only KIND] [--seconds MAX] [--keep]

Each file is of one kind, written by tests/analyze/hostile_files/*.py, with sizes that the
seed (printed; the clock's by default) draws.  wconv reads it in a process of its
own.  A file that is refused may take twice its bytes and 64 MiB at the peak
(VmHWM, as wait4() reports it); no file may take more than --seconds of processor
time (10) or end the process by a signal.  What breaks a bound is printed and stays
in FOLDER; the last lines say how many files there were of each kind and the
highest peak and time.  HDF5 files need h5py.  Exit 1 where a bound was broken.
"""
import argparse
import os
import random
import sys
import time


def serve(wconv, take, give):
    """Measures in a process that is small: a child's peak begins with its
    parent's."""
    while True:
        line = take.readline().strip()
        if not line:
            return
        args = [wconv, *line.split("\t"), "-o", "out.infer", "-q"]
        to = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
              (os.POSIX_SPAWN_OPEN, 2, "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
        pid = os.posix_spawn(wconv, args, os.environ, file_actions=to)
        _, status, use = os.wait4(pid, 0)
        give.write(f"{os.waitstatus_to_exitcode(status)} {use.ru_maxrss} "
                   f"{use.ru_utime + use.ru_stime}\n")
        give.flush()


def start(wconv, folder):
    ask, answer = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask[1])
        os.close(answer[0])
        os.chdir(folder)
        serve(wconv, os.fdopen(ask[0]), os.fdopen(answer[1], "w"))
        os._exit(0)
    os.close(ask[0])
    os.close(answer[1])
    return os.fdopen(ask[1], "w"), os.fdopen(answer[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--wconv", default="./wconv")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    ask, answer = start(os.path.abspath(options.wconv), options.folder)

    from hostile_files import archives, onnx, pickles, tables, texts
    kinds = {k: f for m in (onnx, archives, pickles, tables, texts)
             for k, f in m.KINDS.items() if options.only in k}
    names = sorted(kinds)
    print(f"seed {options.seed}, {len(names)} kinds")
    seen, broken = {}, 0
    for i in range(options.count):
        kind = names[i % len(names)]
        draw = random.Random(f"{options.seed} {i}")
        made = kinds[kind](draw)
        if isinstance(made, tuple):
            made = {"": made}
        files = []
        for part, (suffix, data) in made.items():
            files.append(f"{i}-{kind}{part}{suffix}")
            with open(os.path.join(options.folder, files[-1]), "wb") as f:
                f.write(data)
        size = sum(len(data) for _, data in made.values())
        ask.write("\t".join(files) + "\n")
        ask.flush()
        rc, kib, seconds = answer.readline().split()
        rc, mib, seconds = int(rc), int(kib) / 1024, float(seconds)
        said = open(os.path.join(options.folder, "said"), errors="replace").read().strip()
        bad = rc < 0 or seconds > options.seconds or (
            rc != 0 and mib > 2 * size / 2**20 + 64)
        n, top, longest, read = seen.get(kind, (0, 0, 0, 0))
        seen[kind] = (n + 1, max(top, mib if rc else 0), max(longest, seconds), read + (rc == 0))
        if bad:
            broken += 1
            print(f"{files[0]}: exit {rc}, {size} bytes, {mib:.1f} MiB, {seconds:.2f} s: "
                  f"{said[-160:]}", flush=True)
        elif not options.keep:
            for name in files:
                os.unlink(os.path.join(options.folder, name))
    for kind, (n, top, longest, read) in sorted(seen.items()):
        print(f"{kind:24} {n:4} files, {read:4} read, refused at most {top:6.1f} MiB, "
              f"at most {longest:.2f} s")
    print(f"{broken} of {options.count} broke a bound")
    return broken > 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    sys.exit(main())
