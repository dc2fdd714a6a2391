#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coverage of the readers: lines and branches of weights, libinfer/graph,
libinfer/image and libinfer/model that the unit tests and the replay of the
committed corpus run.

usage: tests/analyze/coverage.py BUILD

BUILD is a folder configured from these sources with
    CC=clang CXX=clang++ CFLAGS='-g -O1 -fprofile-instr-generate
    -fcoverage-mapping' LDFLAGS=-fprofile-instr-generate
--without-cuda --without-onednn; what is missing is built.  LLVM_SUFFIX=-14
names the tools of a version.  Passes, architectures and quantisation read no
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
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.split("usage: ")[1].strip(), file=sys.stderr)
        return 1
    folder = os.path.abspath(sys.argv[1])
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    suffix = os.environ.get("LLVM_SUFFIX", "")
    names = mutate.programs(source)
    subprocess.run(["make", "-s"] + names, cwd=folder, check=True)
    profiles = []
    for name in names:
        profile = os.path.join(folder, name.replace("/", "-") + ".profraw")
        env = dict(os.environ, srcdir=source, LLVM_PROFILE_FILE=profile)
        done = subprocess.run(mutate.command_of(source, name), cwd=folder,
                              env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 77):
            print("fails: " + name, file=sys.stderr)
        if os.path.exists(profile):
            profiles.append(profile)
    merged = os.path.join(folder, "all.profdata")
    subprocess.run(["llvm-profdata" + suffix, "merge", "-sparse"] + profiles +
                   ["-o", merged], check=True)
    objects = []
    for name in names[1:]:
        objects += ["-object", name]
    report = subprocess.run(["llvm-cov" + suffix, "report", "-instr-profile",
                             merged, names[0]] + objects, cwd=folder,
                            check=True, capture_output=True, text=True).stdout
    table(report)
    return 0


def table(report):
    """Sums by folder of what llvm-cov reports for each file."""
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for line in report.splitlines():
        word = line.split()
        found = ROOTS.search(word[0]) if len(word) == 13 else None
        if not found or "tests/" in word[0]:
            continue
        path = found.group(1)
        keys = [os.path.dirname(path)]
        if not any(path.startswith(n) for n in mutate.NOT_READERS):
            keys.append("readers")
        for key in keys:
            for i, column in enumerate((7, 8, 10, 11)):
                sums[key][i] += int(word[column])
    for key in sorted(sums, key=lambda k: (k == "readers", k)):
        lines, missed, branches, unseen = sums[key]
        print("%-24s %6d lines %5.1f %%  %6d branches %5.1f %%" %
              (key, lines, 100 - 100 * missed / max(1, lines), branches,
               100 - 100 * unseen / max(1, branches)))


if __name__ == "__main__":
    sys.exit(main())
