#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation run: removes checks of the readers, one at a time, and counts those
whose removal no test notices.

usage: tests/analyze/mutate.py FOLDER [--sample N] [--seed S] [--only GLOB]
                               [--jobs N] [--reuse BUILD] [--plain] [--near]
                               [--list] [--unmet]

A check is an operand of || in the condition of an if whose body reports an
error, or whose body returns false, -1 or NULL and that compares sizes.  Out of
memory and errors that are handed on (rc < 0, im->status < 0) do not count.  All checks are
compiled once, each behind a number: MUTANT=n removes check n.  FOLDER gets a
copy of the sources, a build with AddressSanitizer and UBSan, and for each test
the checks that it reaches; a removed check is tried by these tests alone.  With
--reuse the readers and tests alone are compiled with the sanitizers, the rest
comes from BUILD, a built folder of these sources (--without-cuda); --plain
leaves the sanitizers out, which is quicker and notices less.  A test notices it
by failing, by a finding of a sanitizer, or by taking more than 120 seconds of
processor time.  The last lines: how many of the sample were noticed, and those
that were not.  --near asks the tests of the check's own reader alone (NEAR
below), without a first run of all tests: quicker, and notices less.  --unmet lists the checks whose condition holds in no test: no
test can notice that one of them is gone, but by what its condition does.
tests/analyze/grow.py looks for inputs that notice more.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import random
import re
import resource
import subprocess
import sys

ROOTS = ["weights", "libinfer/graph", "libinfer/image", "libinfer/model"]
# What computes and reads no bytes of strangers.
NOT_READERS = ["weights/passes/", "weights/arch/", "weights/quantize/"]
TESTS = ["graph", "weights", "task"]
SECONDS = 120
# Tests of a reader, by the words in their names.
NEAR = [("weights/external.c", "importer/external|unit/weights/folder"),
        ("weights/aten/", "torch/operators|torch/export|torch/modules"),
        ("weights/caffe/", "caffe|importer/large"),
        ("weights/darknet/", "darknet|importer/large"),
        ("weights/hdf5/", "hdf5|keras|lines/edits"),
        ("weights/keras/", "keras|lines/edits"),
        ("weights/layers/", "caffe|darknet|ncnn|importer/large"),
        ("weights/ncnn/", "ncnn|importer/large"),
        ("weights/numpy/", "npz|lines/headers"),
        ("weights/onnx/", "onnx|importer/|torch/operators|tensorflow/operators|"
                          "lines/messages|importer/large"),
        ("weights/protobuf/", "protobuf|onnx|lines/messages|importer/large"),
        ("weights/pytorch/", "pickle|pytorch|torch/calls|torch/modules|legacy"),
        ("weights/safetensors/", "safetensors|lines/headers|folder|importer/large"),
        ("weights/tensorflow/", "tensorflow|lines/messages|importer/large"),
        ("weights/tflite/", "tflite|lines/flat"),
        ("weights/torchscript/", "torch/script|lines/torchscript"),
        ("weights/", "zip|bare_weights|weights/arch|layout|passes_basic|"
                     "safetensors|folder|npz"),
        ("libinfer/graph/", "unit/graph/|lines/graph|budget|fuzz/model|fuzz/text|"
                             "multiplier/stored"),
        ("libinfer/image/", "image|pixels|misuse"),
        ("libinfer/model/", "open_memory|fuzz/model|misuse")]

ERROR = re.compile(r"\b(return|rc =|=) *\w*(error_set|fail|failed|bad|wrong|"
                   r"refuse|REFUSE)\w* *\(|return INFER_E")
QUIET = re.compile(r"^(return (false|-1|NULL)|goto \w+|return 0)$")
SIZES = re.compile(r"[<>]|checked_|memcmp|strcmp")
HANDED_ON = re.compile(r"^!?\(*\w*rc\w* *(<|!=|==) *0\)*$|^\w+ < 0$|"
                       r"^\w+(->|\.)(\w+\.)?(rc|status) (<|!=|==) 0$")
NO_MEMORY = re.compile(r"json_(put|append)\(|\bput\(|cJSON_(Create|Add)|strdup\(|"
                       r"_copy\(|copy_node\(")

SUPPORT = r"""
/* Of tests/analyze/mutate.py. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
int mutant_removed(int n);
int mutant_met(int n);
unsigned char mutant_seen[1 << 16]; /* 1: evaluated, 2: true */
int mutant = -1;
__attribute__((constructor)) static void mutant_start(void)
{
    const char *text = getenv("MUTANT");
    mutant = text ? atoi(text) : -1;
}
__attribute__((destructor)) static void mutant_end(void)
{
    const char *path = getenv("MUTANT_HITS");
    FILE *f = path ? fopen(path, "ab") : NULL;
    if (!f)
        return;
    for (int i = 0; i < 1 << 16; i++)
        if (mutant_seen[i])
            fprintf(f, "%d %d\n", i, mutant_seen[i]);
    fclose(f);
}
int mutant_removed(int n)
{
    mutant_seen[n] |= 1;
    return n == mutant;
}
int mutant_met(int n)
{
    mutant_seen[n] |= 2;
    return 1;
}
"""


def skip_quoted(text, i):
    """The index behind the comment, string or character at i, or i."""
    if text.startswith("/*", i):
        return text.index("*/", i) + 2
    if text.startswith("//", i):
        return text.index("\n", i)
    if text[i] in "\"'":
        quote, i = text[i], i + 1
        while text[i] != quote:
            i += 2 if text[i] == "\\" else 1
        return i + 1
    return i


def closing(text, i):
    """The index of the bracket that closes the one at i."""
    depth = 0
    while True:
        j = skip_quoted(text, i)
        if j != i:
            i = j
            continue
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
        i += 1


def operands(text, start, end):
    """Ranges of the operands of || between start and end."""
    found, i, first = [], start, start
    while i < end:
        j = skip_quoted(text, i)
        if j != i:
            i = j
        elif text[i] in "([{":
            i = closing(text, i) + 1
        elif text.startswith("||", i):
            found.append((first, i))
            i += 2
            first = i
        else:
            if text[i] == "?":
                return [(start, end)]
            i += 1
    return found + [(first, end)]


def body_of(text, i):
    """The statement or block at i, without comments, on one line."""
    while True:
        while text[i].isspace():
            i += 1
        j = skip_quoted(text, i)
        if j == i or text[i] not in "/":
            break
        i = j
    end = closing(text, i) if text[i] == "{" else None
    if end is None:
        end = i
        while text[end] != ";":
            j = skip_quoted(text, end)
            end = j if j != end else closing(text, end) + 1 \
                if text[end] in "([{" else end + 1
        body = text[i:end]
    else:
        body = text[i + 1:end].strip().rstrip(";")
    return " ".join(re.sub(r"/\*.*?\*/", "", body, flags=re.S).split())


def checks_of(text):
    """(start, end) of each check of a file, and of the line where it stands."""
    found = []
    for m in re.finditer(r"\bif \(", text):
        line_start = text.rfind("\n", 0, m.start()) + 1
        line_end = text.index("\n", m.start())
        if text[line_end - 1] == "\\" or "#" in text[line_start:m.start()] or \
                "*" == text[line_start:m.start()].strip()[:1]:
            continue
        end = closing(text, m.end() - 1)
        body = body_of(text, end + 1)
        last = body.split(";")[-1].strip()
        if "MEMORY" in body or "out of memory" in body:
            continue
        error = bool(ERROR.search(body))
        if not error and not QUIET.match(last):
            continue
        for a, b in operands(text, m.end(), end):
            operand = " ".join(text[a:b].split())
            if HANDED_ON.match(operand) or NO_MEMORY.search(operand):
                continue
            if error or SIZES.search(operand.replace("->", ".")):
                found.append((a, b))
    return found


def instrument(source):
    """Puts every check of the readers behind a number; returns (file, line,
    text) of each."""
    checks = []
    for root in ROOTS:
        for folder, _, names in sorted(os.walk(os.path.join(source, root))):
            for name in sorted(names):
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, source)
                if not name.endswith(".c") or \
                        any(relative.startswith(n) for n in NOT_READERS):
                    continue
                text = open(path).read()
                out, at = [], 0
                for a, b in checks_of(text):
                    n = len(checks)
                    out += [text[at:a], "(!mutant_removed(%d) && (" % n,
                            text[a:b], ") && mutant_met(%d))" % n]
                    at = b
                    checks.append((relative, text.count("\n", 0, a) + 1,
                                   " ".join(text[a:b].split())))
                if out:
                    text = "int mutant_removed(int n);\n" \
                        "int mutant_met(int n);\n#line 1\n" + \
                        "".join(out) + text[at:]
                    open(path, "w").write(text)
    error = os.path.join(source, "kernels/base/error.c")
    open(error, "a").write(SUPPORT)
    return checks


SANITIZE = "-fsanitize=address,undefined"


def copy_sources(top, source):
    os.makedirs(source)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=top, check=True,
                           capture_output=True).stdout
    archive = subprocess.run(["tar", "-cf", "-", "--null", "-T", "-"], cwd=top,
                             input=names, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-xf", "-", "-C", source], input=archive, check=True)


def build(top, folder, reuse, jobs, plain):
    """Copies, instruments and builds; returns the checks."""
    source, tree = os.path.join(folder, "source"), os.path.join(folder, "build")
    listing = os.path.join(folder, "checks")
    if os.path.exists(listing):
        return [tuple(line.rstrip("\n").split("\t")) for line in open(listing)]
    flags = []
    os.makedirs(folder, exist_ok=True)
    if reuse:
        # Makefiles name the sources relative to the build.
        more = "" if plain else " " + SANITIZE
        flags = ["CFLAGS=-g -O1 -w -Wno-error" + more, "LDFLAGS=" + more]
        subprocess.run(["cp", "-a", top, source], check=True)
        subprocess.run(["cp", "-a", reuse, tree], check=True)
        before = os.path.relpath(top, reuse)
        link = os.path.normpath(os.path.join(tree, before))
        if link != source:
            os.symlink(source, link)
        checks = instrument(source)
    else:
        copy_sources(top, source)
        os.makedirs(tree)
        checks = instrument(source)
        subprocess.run(["autoreconf", "-fi"], cwd=source, check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run(["../source/configure", "-q", "--enable-sanitizers",
                        "--disable-shared", "--without-cuda",
                        "--without-onednn", "CFLAGS=-g -O1"], cwd=tree,
                       check=True)
    subprocess.run(["make", "-s", "-j%d" % jobs] + flags + programs(source),
                   cwd=tree, check=True)
    with open(listing, "w") as f:
        for c in checks:
            f.write("%s\t%d\t%s\n" % c)
    return checks


def programs(source):
    """Names of the programs to build: unit tests and fuzz targets."""
    text = open(os.path.join(source, "tests/Makefile.inc")).read()
    units = re.findall(r"(?m)^check_PROGRAMS \+= (tests/unit/\S+)", text)
    units = [u for u in units if u.split("/")[2] in TESTS or
             u.endswith(("/image", "/open_memory", "/data_files", "/budget",
                         "/pixels", "/stored"))]
    fuzz = re.findall(r"(?m)^fuzz_targets \+= (\S+)", open(
        os.path.join(source, "tests/fuzz/Makefile.inc")).read())
    return units + fuzz


def command_of(source, program):
    if not program.startswith("tests/fuzz/"):
        return ["./" + program]
    return ["sh", os.path.join(source, "tests/fuzz/replay.sh"), program]


def run(folder, program, **more):
    """True if the test passes."""
    source = os.path.join(folder, "source")
    env = dict(os.environ, srcdir=source, FUZZ_WORDS="1",
               ASAN_OPTIONS="detect_leaks=0",
               UBSAN_OPTIONS="halt_on_error=1", **more)

    # Not the clock's: others may be busy.
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    done = subprocess.run(command_of(source, program), env=env,
                          cwd=os.path.join(folder, "build"), preexec_fn=limit,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    return done.returncode in (0, 77)


def reach(folder, names, jobs):
    """The checks that each test reaches: {program: {number: whether its condition
    holds there}}."""
    def one(program):
        hits = os.path.join(folder, "hits-" + program.replace("/", "-"))
        if not os.path.exists(hits):
            open(hits + ".new", "w").close()
            if not run(folder, program, MUTANT_HITS=hits + ".new"):
                print("fails without a mutant: " + program, file=sys.stderr)
                open(hits + ".new", "w").close()
            os.rename(hits + ".new", hits)
        pairs = (line.split() for line in open(hits))
        return program, {int(n): seen == "3" for n, seen in pairs}

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, names))


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("folder")
    p.add_argument("--sample", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="*")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--reuse")
    p.add_argument("--plain", action="store_true")
    p.add_argument("--near", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--unmet", action="store_true")
    o = p.parse_args()
    folder = os.path.abspath(o.folder)
    top = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    checks = build(top, folder, o.reuse and os.path.abspath(o.reuse), o.jobs,
                   o.plain)
    chosen = [n for n, c in enumerate(checks) if fnmatch.fnmatch(c[0], o.only)]
    if o.list:
        for n in chosen:
            print(n, *checks[n])
        return 0
    names = programs(os.path.join(folder, "source"))
    if not o.near:
        reached = reach(folder, names, o.jobs)
    if o.unmet:
        met = {n for hits in reached.values() for n in hits if hits[n]}
        for n in chosen:
            if n not in met:
                print(n, *checks[n])
        print("%d of %d checks are met by no test" %
              (sum(n not in met for n in chosen), len(chosen)))
        return 0
    total = len(chosen)
    if o.sample and o.sample < len(chosen):
        chosen = sorted(random.Random(o.seed).sample(chosen, o.sample))

    if o.near:
        def near(path):
            words = next(w for start, w in NEAR if path.startswith(start))
            return [t for t in names if re.search(words, t)]

        used = sorted({t for n in chosen for t in near(checks[n][0])})
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            fine = dict(zip(used, pool.map(lambda t: run(folder, t), used)))
        for t in used:
            if not fine[t]:
                print("fails without a mutant: " + t, file=sys.stderr)
        reached = {t: {n: True for n in chosen if fine.get(t) and
                       t in near(checks[n][0])} for t in names}

    def one(n):
        tests = [t for t in names if n in reached[t]]
        # Where the condition holds; those that reach few checks are the ones
        # about this reader.
        tests.sort(key=lambda t: (not reached[t][n], len(reached[t])))
        if "(" not in checks[n][2] and not any(reached[t][n] for t in tests):
            return n, None, len(tests)
        for t in tests:
            if not run(folder, t, MUTANT=str(n)):
                return n, t, len(tests)
        return n, None, len(tests)

    noticed, survivors = 0, []
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for n, by, tests in pool.map(one, chosen):
            print("%5d %s:%s %s: %s" % (n, *checks[n], by or "NOT NOTICED"),
                  flush=True)
            if by:
                noticed += 1
            else:
                survivors.append((n, tests))
    print("%d checks, %d removed (seed %d), %d noticed: %.1f %%" %
          (total, len(chosen), o.seed, noticed,
           100 * noticed / max(1, len(chosen))))
    for n, tests in survivors:
        print("%s:%s  %s  (%s)" % (*checks[n], "%d tests reach it" % tests
                                   if tests else "no test reaches it"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
