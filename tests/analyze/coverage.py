#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coverage of the readers: lines and branches of weights, libinfer/graph,
libinfer/image and libinfer/model that the unit tests, the replay of the
committed corpus, the tests of the tools and a sample of faults (failing
allocations, reads and writes) run.

usage: tests/analyze/coverage.py BUILD [--files] [--missed FILE]

BUILD is a folder configured from these sources with
    CC=clang CXX=clang++ CFLAGS='-g -O1 -fprofile-instr-generate
    -fcoverage-mapping' LDFLAGS=-fprofile-instr-generate
--without-cuda --without-onednn; what is missing is built.  LLVM_SUFFIX=-14
names the tools of a version.  --files lists files in place of folders, most
missed lines first; --missed lists the lines of one file that nothing runs.
With --missed or --files and all.profdata in BUILD nothing is run again.  Passes, architectures and quantisation read no
bytes of strangers and are left out of the last line.
"""
import collections
import os
import re
import subprocess
import sys

import mutate

ROOTS = re.compile(r"(?:^|/)((?:weights|libinfer/graph|libinfer/image|"
                   r"libinfer/model)/[^ ]*\.c)$")


def main():
    more = sys.argv[2:]
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or \
            more[:1] not in ([], ["--files"], ["--missed"]):
        print(__doc__.split("usage: ")[1].strip(), file=sys.stderr)
        return 1
    folder = os.path.abspath(sys.argv[1])
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    suffix = os.environ.get("LLVM_SUFFIX", "")
    names = mutate.programs(source)
    merged = os.path.join(folder, "all.profdata")
    if not more or not os.path.exists(merged):
        subprocess.run(["make", "-s"] + names + TOOLS, cwd=folder, check=True)
        run_all(source, folder, names, merged, suffix)
    objects = ["-instr-profile", merged, names[0]]
    for name in names[1:] + TOOLS[:3]:
        objects += ["-object", name]
    if more[:1] == ["--missed"]:
        text = subprocess.run(["llvm-cov" + suffix, "show"] + objects +
                              [os.path.join(source, more[1])], cwd=folder,
                              check=True, capture_output=True, text=True).stdout
        for line in text.splitlines():
            if re.match(r" *\d+\| +0\|", line):
                print(line)
        return 0
    report = subprocess.run(["llvm-cov" + suffix, "report"] + objects,
                            cwd=folder, check=True, capture_output=True,
                            text=True).stdout
    table(report, bool(more))
    return 0


# Tools, and the scripts that run them.
TOOLS = ["wconv", "infer", "train", "tests/faults/inject.la"]
SCRIPTS = ["tests/conformance/emit.sh",
           "tests/conformance/tasks.sh", "tests/faults/run.sh"]


def run_all(source, folder, names, merged, suffix):
    raw = os.path.join(folder, "profiles")
    os.makedirs(raw, exist_ok=True)
    for name in names + SCRIPTS:
        command = ["sh", os.path.join(source, name)] if name in SCRIPTS else \
            mutate.command_of(source, name)
        env = dict(os.environ, srcdir=source, FAULTS="4", LLVM_PROFILE_FILE=
                   os.path.join(raw, name.replace("/", "-") + "-%p.profraw"))
        done = subprocess.run(command, cwd=folder, env=env,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 77):
            print("fails: " + name, file=sys.stderr)
        # A process whose files fail leaves a part of a profile.
        profiles = [os.path.join(raw, f) for f in sorted(os.listdir(raw))]
        kept = [merged] if os.path.exists(merged) else []
        with open(os.path.join(folder, "profiles.txt"), "w") as f:
            f.write("\n".join(kept + profiles) + "\n")
        subprocess.run(["llvm-profdata" + suffix, "merge", "-sparse",
                        "-failure-mode=all", "-f",
                        os.path.join(folder, "profiles.txt"), "-o",
                        merged + ".new"], stderr=subprocess.DEVNULL, check=True)
        os.rename(merged + ".new", merged)
        for path in profiles:
            os.remove(path)


def table(report, files):
    """Sums by folder, or by file, of what llvm-cov reports for each file."""
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for line in report.splitlines():
        word = line.split()
        found = ROOTS.search(word[0]) if len(word) == 13 else None
        if not found or "tests/" in word[0]:
            continue
        path = found.group(1)
        keys = [path if files else os.path.dirname(path)]
        if not any(path.startswith(n) for n in mutate.NOT_READERS):
            keys.append("readers")
        for key in keys:
            for i, column in enumerate((7, 8, 10, 11)):
                sums[key][i] += int(word[column])
    order = sorted(sums, key=lambda k: (k == "readers",
                                        -sums[k][1] if files else 0, k))
    for key in order:
        lines, missed, branches, unseen = sums[key]
        print("%-36s %6d lines %5.1f %%  %6d branches %5.1f %%  %4d lines, "
              "%4d branches missed" %
              (key, lines, 100 - 100 * missed / max(1, lines), branches,
               100 - 100 * unseen / max(1, branches), missed, unseen))


if __name__ == "__main__":
    sys.exit(main())
