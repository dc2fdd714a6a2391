#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of tests/results/kbench-gpu.md from what kbench --json wrote.

    kbench_table.py FILE.json... > TABLE.md

Problems without a model make the first table, layers of models the second, by
network and batch; then every layer whose ratio is below 0.9 with its reason.
Of a problem that several files have, ours is from the last of them and the
baseline is the best of all: ours may have changed in between, the heuristics of the
baseline offer other engines from run to run.
A reason is not judged by eye: it is a letter for each rule below that the
figures of the problem, of our kernel's tile and of the device fulfil, with the
figure that fulfils it.
"""
import json
import math
import re
import sys

BELOW = 0.9
# A launch this many times the shortest one is mostly on its way.
SHORT = 8

RULES = {
    "L": "latency: the launch takes less than 8 times the shortest one that "
         "the device can do, and the floor is below half of it: the way from "
         "the launch over the first loads to the last store sets the pace, "
         "not arithmetic or bandwidth",
    "T": "few tiles: our kernel cuts the output into fewer tiles than there "
         "are multiprocessors (a cluster shares one tile's depth), so that "
         "some have nothing to do and each of the others walks the whole "
         "depth",
    "W": "waves: the tiles fill the last round of the multiprocessors by less "
         "than half, and there are fewer than four rounds",
    "S": "stores: a 1x1 window whose outputs, with a residual, are half of "
         "all bytes or more: writing tiles back sets the pace",
    "N": "narrow: a fifth or more of a tile's columns lie beyond the filters",
    "D": "shallow: the depth (channels times window) is at most two stages of "
         "the ring, so that loads of one tile are not hidden by its own "
         "products",
    "G": "gather: channels are no multiple of 8 (16 bytes), so that the copy "
         "engine cannot be used",
    "F": "arithmetic: none of the above, and the floor is set by it",
    "B": "bandwidth: none of the above, and the floor is set by bytes",
}


# ---- one problem -----------------------------------------------------------

def figures(text):
    """Of "conv_fprop g2mb1ic64ih56oc64oh56kh3ph1 +bias nhwc F16"."""
    letters = re.search(r"(?:^| )((?:g\d+)?mb\d+ic\S+)", text)
    if not letters:
        return None
    f = {k: int(v) for k, v in
         re.findall(r"([a-z]+)(\d+)", letters.group(1))}
    f.setdefault("g", 1)
    for w, h in (("iw", "ih"), ("ow", "oh"), ("kw", "kh")):
        f.setdefault(w, f.get(h, 1))
    f["residual"] = "+residual" in text
    return f


def tile_of(kernel):
    """Rows and columns of our kernel's tile, from its name."""
    if "stem" in kernel or not re.search("wgmma|igemm|simt", kernel):
        return None
    found = re.search(r"_(\d+)x(\d+)(?:_|$)", kernel)
    return (int(found.group(1)), int(found.group(2))) if found else None


def best(problem, side):
    timed = [k for k in problem["kernels"]
             if k["side"] == side and "median_us" in k
             and k["state"] in ("timed", "dropped")]
    return min(timed, key=lambda k: k["median_us"], default=None)


def tile_reasons(f, kernel, sms):
    tile = tile_of(kernel)
    if not tile or "kh" not in f:
        return []
    rows, columns = tile
    filters = f["oc"] // f["g"]
    across = math.ceil(filters / columns)
    tiles = math.ceil(f["mb"] * f["oh"] * f["ow"] / rows) * across * f["g"]
    waves, out = tiles / sms, []
    if tiles < sms:
        out.append(("T", f"{tiles} tiles for {sms}"))
    elif waves < 4 and 0 < waves % 1 < 0.5:
        out.append(("W", f"{waves:.2f} rounds"))
    unused = 1 - filters / (across * columns)
    if unused >= 0.2:
        out.append(("N", f"{100 * unused:.0f} % unused"))
    return out


def reasons(problem, facts):
    """(letter, figure) of each rule that holds."""
    f, ours = figures(problem["problem"]), best(problem, "ours")
    us, floor, out = ours["median_us"], problem["floor_us"], []
    if us < SHORT * facts["launch_us"] and floor < us / 2:
        out.append(("L", f"floor {floor:.2f} us"))
    if f and "ic" in f and "oc" in f:
        size = 4 if problem["precision"] in ("fp32", "tf32") else 2
        depth = f["ic"] // f["g"] * f["kh"] * f["kw"]
        stored = (f["mb"] * f["oc"] * f["oh"] * f["ow"] * size *
                  (2 if f["residual"] else 1))
        share = stored / problem["bytes"]
        out += tile_reasons(f, ours["kernel"], facts["sms"])
        if f["kh"] * f["kw"] == 1 and share >= 0.5 and \
                problem["floor_by"] == "bytes":
            out.append(("S", f"{100 * share:.0f} % of bytes"))
        if depth * size <= 2 * 128:
            out.append(("D", f"depth {depth}"))
        if f["ic"] // f["g"] % (16 // size):
            out.append(("G", f"{f['ic'] // f['g']} channels"))
    if not out:
        out.append(("F" if problem["floor_by"] == "flops" else "B",
                    f"{100 * floor / us:.0f} % of the floor"))
    return out


# ---- tables ----------------------------------------------------------------

def short_kernel(kernel):
    """Without what the problem's line says already."""
    name = re.sub(r"^(?:conv2d|conv|dense|pool|conv_transpose)_[a-z]*prop_|"
                  r"^conv(?:2d)?_[dw]grad_", "", kernel["kernel"])
    name = re.sub(r"^(?:fprop_)?(?:nhwc_|nchw_)?(?:f16|bf16|tf32|f32)_", "",
                  name)
    name = re.sub("^cuda_", "", name)
    return name + (f" {kernel['variant']}" if kernel.get("variant") else "")


def row(*cells):
    return "| " + " | ".join(str(c) for c in cells) + " |"


def head(*cells):
    return row(*cells) + "\n" + "|---" * len(cells) + "|"


def mean(problems):
    return math.exp(sum(math.log(p["ratio"]) for p in problems)
                    / len(problems)) if problems else 0


def us_of(problem, side):
    k = best(problem, side)
    return k["median_us"] if k else None


def print_single(problems):
    print(head("problem", "ours, us", "baseline, us", "ratio", "our kernel",
               "baseline's"))
    for p in problems:
        ours, baseline = best(p, "ours"), best(p, "baseline")
        print(row(p["problem"],
                  f"{ours['median_us']:.2f}" if ours else "-",
                  f"{baseline['median_us']:.2f}" if baseline else "-",
                  f"{p['ratio']:.2f}" if "ratio" in p else "-",
                  short_kernel(ours) if ours else "-",
                  short_kernel(baseline) if baseline else "-"))
    compared = [p for p in problems if "ratio" in p]
    if compared:
        print(f"\nGeometric mean {mean(compared):.3f}, ahead on "
              f"{sum(p['ratio'] >= 1 for p in compared)} of {len(compared)}.")


def group_key(p):
    return p["model"], p["direction"], p["precision"], p["batch"]


def print_groups(problems):
    groups = {}
    for p in problems:
        groups.setdefault(group_key(p), []).append(p)
    print(head("network", "direction", "type", "batch", "problems", "ratio",
               "ahead", "below 0.9", "ours, us", "baseline, us", "floor, us"))
    for key, members in groups.items():
        both = [p for p in members if "ratio" in p]
        total = [sum(p["count"] * us for p in both
                     if (us := us_of(p, side)))
                 for side in ("ours", "baseline")]
        floor = sum(p["count"] * p["floor_us"] for p in both)
        alone = len(members) - len(both)
        print(row(key[0], key[1], key[2], key[3],
                  f"{len(both)}" + (f" (+{alone} alone)" if alone else ""),
                  f"{mean(both):.2f}" if both else "-",
                  sum(p["ratio"] >= 1 for p in both),
                  sum(p["ratio"] < BELOW for p in both),
                  f"{total[0]:.0f}", f"{total[1]:.0f}", f"{floor:.0f}"))


def print_below(problems, facts):
    below = sorted((p for p in problems
                    if p.get("ratio", 1) < BELOW and best(p, "ours")),
                   key=lambda p: p["ratio"])
    compared = [p for p in problems if "ratio" in p]
    if not compared:
        return
    ahead = sum(p["ratio"] >= 1 for p in compared)
    print(f"\nOver all {len(compared)} problems: geometric mean "
          f"{mean(compared):.3f}, ours ahead on {ahead} "
          f"({100 * ahead / len(compared):.0f} %), {len(below)} below "
          f"{BELOW}.\n")
    if not below:
        return
    print(head("ratio", "network", "problem", "ours, us", "our kernel",
               "baseline, us", "baseline's", "reason"))
    count = {}
    for p in below:
        ours, baseline, why = best(p, "ours"), best(p, "baseline"), \
            reasons(p, facts[id(p)])
        for letter, _ in why:
            count[letter] = count.get(letter, 0) + 1
        print(row(f"{p['ratio']:.2f}", p.get("model", ""),
                  re.sub(r"^conv_fprop | nhwc \w+$", "", p["problem"]),
                  f"{ours['median_us']:.2f}", short_kernel(ours),
                  f"{baseline['median_us']:.2f}", short_kernel(baseline),
                  ", ".join(f"{a}: {b}" for a, b in why)))
    print("\nThe letters, with how many of these problems each holds for:\n")
    for letter, text in RULES.items():
        if letter in count:
            print(f"- **{letter}** ({count[letter]}): {text}.")


def print_head(runs):
    print("Commands:\n")
    for date in dict.fromkeys(run["date"] for run in runs):
        of_date = [r["command"] for r in runs if r["date"] == date]
        print(f"{date}:\n\n    " + "\n    ".join(of_date) + "\n")
    print(f"{runs[-1]['device']}; {runs[-1]['software']}. Peaks of these runs, "
          "the highest of each:\n")
    print(head("what", "value", "how"))
    for name in dict.fromkeys(n for r in runs for n in r["peaks"]):
        known = [r["peaks"][name] for r in runs if name in r["peaks"]]
        if name == "launch_us":
            print(row("shortest launch in a series", f"{min(known):.2f} us",
                      "a copy of 64 numbers"))
            continue
        top = max(known, key=lambda k: k["value"])
        unit = (1e9, "GB/s") if name in ("memory", "cache") \
            else (1e12, "TFLOP/s")
        print(row(name, f"{top['value'] / unit[0]:.0f} {unit[1]}",
                  top["how"]))


# ---- several runs ----------------------------------------------------------

def problem_key(p):
    return tuple(p.get(k) for k in ("model", "direction", "precision", "batch",
                                    "problem"))


def merged(earlier, later):
    """One problem of two runs."""
    newest = later if best(later, "ours") else earlier
    both = dict(newest)
    both["kernels"] = \
        [k for k in newest["kernels"] if k["side"] != "baseline"] + \
        [k for p in (earlier, later) for k in p["kernels"]
         if k["side"] == "baseline"]
    ours, baseline = us_of(both, "ours"), us_of(both, "baseline")
    if ours and baseline:
        both["ratio"] = baseline / ours
    return both


def facts_of(run):
    """What the rules need to know of a run's device."""
    sms = re.search(r"(\d+) multiprocessors", run["device"])
    return {"sms": int(sms.group(1)) if sms else 1,
            "launch_us": run["peaks"]["launch_us"]}


def main():
    runs = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    if not runs:
        print(__doc__, file=sys.stderr)
        return 1
    found, known = {}, {}
    for run in runs:
        for p in run["problems"]:
            key = problem_key(p)
            found[key] = merged(found[key], p) if key in found else p
            known[key] = facts_of(run)
    problems = list(found.values())
    facts = {id(p): known[key] for key, p in found.items()}
    single = [p for p in problems if "model" not in p]
    layers = [p for p in problems if "model" in p]
    print_head(runs)
    if single:
        print("\n## Problems by themselves\n")
        print_single(single)
    if layers:
        print("\n## Layers of networks\n")
        print_groups(layers)
        print_below([p for p in layers if p["direction"] == "fprop"], facts)
    untried = sum(p.get("variants_untried", 0) for p in problems)
    if untried:
        print(f"\n{untried} engines of the baseline, of all problems together, "
              "were left out by --prepare-limit.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
