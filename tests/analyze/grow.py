#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for inputs and lines that notice the removal of a check.

usage: tests/analyze/grow.py FOLDER OUT [--seconds N] [--seed S] [--killed FILE]
                             [--from CORPORA] [--lines FILE]
                             TARGET|TABLE...

FOLDER is that of tests/analyze/mutate.py, built with --plain: every check of the
readers stands behind a number there.  TARGET is a fuzz target (onnx,
torch_export); its corpus, tests/data and mutants of both are run, and where a
check's condition holds the input is run again without the check.  If it then ends
in another way, the input kills the check.  OUT/TARGET.grown gets the inputs that
kill checks that no input before them killed, as a pack without compression;
--add appends it to the committed pack.  TABLE is lines/NAME, where NAME is a
folder of tests/unit/weights with an operators.def (lines/torch) or a table of
tests/unit/weights/lines (lines/keras): OUT/NAME.rows gets changed lines in the
form of the table, with what the reader says to them today: whether that is
right, the one who adds them says.  --seconds counts processor
time (20).  CORPORA/TARGET holds inputs of a campaign, the FILE of --lines
lines of the table, which are tried first.
The FILE of --killed holds the checks that are killed already, and is written anew.
"""
import argparse
import glob
import gzip
import os
import re
import subprocess
import sys

ARCHIVES = ["libweights", "libcli", "libemit", "libtrain", "libinfer_core",
            "libgraph", "libkernels"]
LIBRARIES = ["-fopenmp", "-lcmocka", "-lz", "-lpng", "-ljpeg", "-lcjson",
             "-ldl", "-lstdc++", "-lm", "-lpthread"]


def sources_of(source):
    """{target: (files, flags)} of tests/fuzz/Makefile.inc."""
    text = open(os.path.join(source, "tests/fuzz/Makefile.inc")).read()
    text = text.replace("\\\n", " ")
    variables = dict(re.findall(r"(?m)^(fuzz_\w+) = (.*)$", text))
    variables["fuzz_common"] = "tests/analyze/grow/inputs.c"
    found = {}
    for name, files in re.findall(
            r"(?m)^tests_fuzz_(\w+)_SOURCES = (.*)$", text):
        for _ in range(3):
            files = re.sub(r"\$\((\w+)\)",
                           lambda m: variables.get(m.group(1), ""), files)
        flags = re.search(r"(?m)^tests_fuzz_%s_CPPFLAGS = \$\(AM_CPPFLAGS\) "
                          r"(.*)$" % name, text)
        found[name] = ([f for f in files.split() if f.endswith(".c")],
                       flags.group(1).split() if flags else [])
    return found


def compile_program(folder, out, files, flags):
    tree = os.path.join(folder, "build")
    source = os.path.relpath(os.path.join(folder, "source"), tree)
    link = open(os.path.join(tree, "Makefile")).read()
    onednn = ["-ldnnl"] if re.search(r"(?m)^ONEDNN_LIBS =[ ]+\S", link) else []
    archives = [a for a in (".libs/%s.a" % n for n in ARCHIVES)
                if os.path.exists(os.path.join(tree, a))]
    subprocess.run(
        ["gcc", "-g", "-O1", "-std=c11", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H",
         "-DSOURCE_DIR=\"%s\"" % os.path.join(folder, "source"), "-I.",
         "-I" + source, "-w", "-o", out] + flags +
        [f if f.startswith("/") else os.path.join(source, f) for f in files] +
        ["-Wl,--start-group"] + archives + ["-Wl,--end-group"] + onednn +
        LIBRARIES, cwd=tree, check=True)


def pack_of(top, target):
    name = target.split("_")[-1] if "_" in target else target
    name = {"passes": "onnx", "emit": "model"}.get(name, name)
    return os.path.join(top, "tests/fuzz/corpus", name + ".pack.gz")


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("folder")
    p.add_argument("out")
    p.add_argument("names", nargs="*")
    p.add_argument("--seconds", default="20")
    p.add_argument("--seed", default="1")
    p.add_argument("--killed")
    p.add_argument("--from", dest="corpora")
    p.add_argument("--lines")
    p.add_argument("--add", action="store_true")
    o = p.parse_intermixed_args()
    folder, out = os.path.abspath(o.folder), os.path.abspath(o.out)
    top = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    os.makedirs(out, exist_ok=True)
    targets = sources_of(top)
    grow = os.path.join(top, "tests/analyze/grow")
    for name in o.names:
        grown = os.path.join(out, name + ".grown")
        if o.add:
            pack = pack_of(top, name)
            whole = gzip.open(pack).read() + open(grown, "rb").read()
            open(pack, "wb").write(gzip.compress(whole, 9, mtime=0))
            continue
        program = os.path.join(out, "grow-" + name.replace("/", "-"))
        killed = o.killed or os.path.join(out, name + ".killed")
        flags = ["-I" + top]
        if name in targets:
            files, more = targets[name]
            files = [os.path.join(top, f) for f in files]
            compile_program(folder, program, files, more + flags)
            arguments = [grown, o.seed]
            if os.path.exists(pack_of(top, name)):
                arguments.append(pack_of(top, name))
            arguments += sorted(glob.glob(os.path.join(top, "tests/data/seed_*")))
            if o.corpora:
                arguments.append(os.path.abspath(os.path.join(
                    o.corpora, name.split("_")[-1])))
        else:
            name = name.split("/")[-1]
            unit = os.path.join(top, "tests/unit/weights", name, "operators")
            if not os.path.exists(unit + ".c"):
                unit = os.path.join(top, "tests/unit/weights/lines", name)
            test = ["-DTEST=\"%s.c\"" % unit, "-DROWS=\"%s.def\"" % unit]
            if name == "importer":
                test.append("-DOPSET")
            compile_program(folder, program, [os.path.join(grow, "lines.c")],
                            test + flags)
            arguments = [os.path.join(out, name + ".rows"), o.seed]
            if o.lines:
                arguments.append(os.path.abspath(o.lines))
        done = subprocess.run([program, o.seconds, killed] + arguments,
                              cwd=os.path.join(folder, "build"),
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=True)
        print("%s: %s" % (name, done.stdout.strip()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
