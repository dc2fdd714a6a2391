#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""checkkern in many processes at once, and one table of what they found.

    sharded.py run DIR [--checkkern=FILE] [--of=N] [--from=I] [--to=J]
        [--only=I,J,..] [--jobs=N] [--gpus=0,1,..] [--tool=memcheck|racecheck|initcheck|
        synccheck] [--within=SECONDS] [checkkern's options]
    sharded.py sum [--count=N] DIR...

`run` starts shards I to J - 1 of N, or only those named, at most --jobs together and turn by turn on
the GPUs named; each writes DIR/shard-K.out and .err.  All rows are in every
shard, with another Nth of the problems.  With --tool, shards are run under
compute-sanitizer and hold all problems of every Nth row instead, so that each
kernel is instrumented once.  What is not done within --within seconds is
stopped, and short.  `sum` adds up one or several such folders
(several machines, or lanes of one) and prints a Markdown table, a line a family
of rows.  A row that has fewer than --count problems in a type that it takes, or
none at all, is named.

Exit: 0 all rows are good, 1 usage, 3 a row is wrong or short, or a tool has
something to report.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import time

LINE = re.compile(
    r"(ok|short|not ok) (\S+): (\d+) listed, at random(.*); (\d+) on integers,"
    r" (\d+) with infinities, worst (\S+) of the tolerance")
KIND = re.compile(r"(\w+) (\d+)(?: of \d+)?")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")


class Row:
    """What all shards together say of one row."""

    def __init__(self):
        self.random = collections.Counter()
        self.listed = self.exact = self.infinite = 0
        self.worst = 0.0
        self.wrong = False

    def add(self, match):
        self.wrong |= match.group(1) == "not ok"
        self.listed += int(match.group(3))
        for kind, n in KIND.findall(match.group(4)):
            self.random[kind] += int(n)
        self.exact += int(match.group(5))
        self.infinite += int(match.group(6))
        self.worst = max(self.worst, float(match.group(7)))

    def verdict(self, count):
        if self.wrong:
            return "wrong"
        if not self.random or min(self.random.values()) < count:
            return "short"
        return "ok"


def family(name):
    """The name without type and tile."""
    name = re.sub(r"_\d+x\d+(_(cluster|splitk|gather))?$", "", name)
    return re.sub(r"_(f32|f16|bf16|tf32)(?=_|$)", "", name)


# ---- running ---------------------------------------------------------


def list_rows(program, options):
    text = subprocess.run([program, "--list"] + options, text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    return [line.split()[0] for line in text.splitlines()]


def command(o, shard, rows):
    if not o["tool"]:
        return [o["checkkern"], f"--shard={shard}/{o['of']}"] + o["options"]
    mine = ",".join(rows[shard::o["of"]])
    plain = [a for a in o["options"] if not a.startswith("--row=")]
    # Only what is read or written without having been allocated or set.
    more = ["--padding=64"] if o["tool"] == "memcheck" else []
    return (["compute-sanitizer", "--tool=" + o["tool"], "--print-limit=20",
             "--error-exitcode=9"] + more + [o["checkkern"], "--separate",
                                             "--row=" + mine] + plain)


def run_shard(o, shard, rows):
    name = os.path.join(o["dir"], f"shard-{shard:03}")
    env = dict(os.environ)
    if o["gpus"]:
        env["CUDA_VISIBLE_DEVICES"] = o["gpus"][shard % len(o["gpus"])]
    start = time.monotonic()
    left = o["end"] - start
    with open(name + ".out", "w") as out, open(name + ".err", "w") as err:
        try:
            if left <= 0:
                raise subprocess.TimeoutExpired("", left)
            code = subprocess.run(command(o, shard, rows), stdout=out,
                                  stderr=err, env=env,
                                  timeout=left).returncode
        except subprocess.TimeoutExpired:
            err.write("FAIL: out of time\n")
            code = 124
        else:
            # The rows say themselves what is wrong or short with them.
            if code not in (0, 3):
                err.write(f"FAIL: exit {code}\n")
    print(f"shard {shard}: exit {code}, {time.monotonic() - start:.0f} s",
          flush=True)
    return code


def run(o):
    os.makedirs(o["dir"], exist_ok=True)
    rows = list_rows(o["checkkern"], o["options"])
    with open(os.path.join(o["dir"], "rows"), "w") as f:
        f.write("\n".join(rows) + "\n")
    shards = [k for k in o["only"] or range(o["from"], o["to"])
              if not o["tool"] or k < len(rows)]
    with concurrent.futures.ThreadPoolExecutor(o["jobs"]) as pool:
        codes = list(pool.map(lambda k: run_shard(o, k, rows), shards))
    return 3 if any(codes) else 0


# ---- summing ---------------------------------------------------------


def read_folder(folder, rows, faults):
    """Adds what the shards of a folder printed."""
    reports = 0
    with open(os.path.join(folder, "rows")) as f:
        for name in f.read().split():
            rows[name]
    for name in sorted(os.listdir(folder)):
        if not name.startswith("shard-"):
            continue
        with open(os.path.join(folder, name), errors="replace") as f:
            text = f.read()
        for line in text.splitlines():
            match = LINE.match(line)
            if match:
                rows[match.group(2)].add(match)
        reports += sum(int(n) for n in SUMMARY.findall(text))
        if name.endswith(".err") and "FAIL" in text:
            faults.append((name, text[text.index("FAIL"):][:1500]))
    return reports


def print_table(rows, count):
    families = collections.defaultdict(list)
    for name, row in rows.items():
        if row.verdict(count) == "ok":
            families[family(name)].append(row)
    print("| rows | of them | types | random, each | listed | on integers |"
          " with infinities | worst of the tolerance |")
    print("|---|---|---|---|---|---|---|---|")
    for name, members in families.items():
        kinds = sorted({k for r in members for k in r.random})
        least = min(min(r.random.values()) for r in members)
        print(f"| {name} | {len(members)} | {' '.join(kinds)} | {least:,} |"
              f" {sum(r.listed for r in members):,} |"
              f" {sum(r.exact for r in members):,} |"
              f" {sum(r.infinite for r in members):,} |"
              f" {max(r.worst for r in members):.2g} |")


def print_sum(folders, count):
    rows = collections.defaultdict(Row)
    faults = []
    reports = sum(read_folder(folder, rows, faults) for folder in folders)
    bad = {n: r for n, r in rows.items() if r.verdict(count) != "ok"}
    print_table(rows, count)
    print()
    for name, r in bad.items():
        kinds = ", ".join(f"{k} {n:,}" for k, n in sorted(r.random.items()))
        print(f"- {name}: {r.verdict(count)}, {kinds or 'nothing checked'};"
              f" worst {r.worst:.2g} of the tolerance")
    total = sum(sum(r.random.values()) + r.listed for r in rows.values())
    types = sum(len(r.random) for r in rows.values())
    print(f"\n{len(rows)} rows, {types} rows and types, {total:,} problems,"
          f" {sum(r.wrong for r in rows.values())} rows wrong,"
          f" {len(bad)} not good, {reports} reports of tools")
    for name, text in faults:
        print(f"\n{name}: {text}", file=sys.stderr)
    return 3 if bad or reports or faults else 0


# ---- command line ----------------------------------------------------


def parse_run(args):
    o = {"checkkern": "tests/checkkern/checkkern", "of": 1, "from": 0,
         "to": None, "jobs": os.cpu_count(), "gpus": [], "tool": "",
         "within": 86400, "options": [], "dir": None, "only": []}
    for a in args:
        key, _, value = a[2:].partition("=")
        if not a.startswith("--"):
            o["dir"] = a
        elif key in ("of", "from", "to", "jobs", "within"):
            o[key] = int(value)
        elif key == "gpus":
            o["gpus"] = value.split(",")
        elif key == "only":
            o["only"] = [int(k) for k in value.split(",")]
        elif key in ("checkkern", "tool"):
            o[key] = value
        else:
            o["options"].append(a)
    if o["to"] is None:
        o["to"] = o["of"]
    o["end"] = time.monotonic() + o["within"]
    return o


def main(argv):
    if len(argv) > 2 and argv[1] == "run":
        o = parse_run(argv[2:])
        if o["dir"]:
            return run(o)
    if len(argv) > 2 and argv[1] == "sum":
        count = [int(a[8:]) for a in argv[2:] if a.startswith("--count=")]
        folders = [a for a in argv[2:] if not a.startswith("--")]
        if folders:
            return print_sum(folders, count[0] if count else 1)
    sys.stderr.write(__doc__)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
