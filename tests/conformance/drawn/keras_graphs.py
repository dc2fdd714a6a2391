#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers of Keras 3 and functions of keras.ops with drawn arguments, as Keras
and TensorFlow write them.

    keras_graphs.py FOLDER --wconv=build/wconv --infer=build/infer
                    [--count=60] [--first=0] [--seed=1] [--forms=LIST]
                    [--only=REGEX] [--list=FILE]

Each case is a model of a drawn expression, sometimes behind a convolution.  It
is written in all forms of the list (keras, h5, saved, frozen, float, half,
hybrid, int8, 16x8; the last five are .tflite) and compared, floats to 1e-4 of
the largest output, with Keras, and .tflite with TensorFlow's reference kernels
on the same file, those of dynamic range (hybrid) with --dynamic-range.  What
Keras or TensorFlow do not build, write or run is left out.
Exit status: 1 where a case differs or crashes.
"""
import collections
import json
import os
import random
import re
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import numpy as np
import tensorflow as tf
import keras
from tensorflow.python.framework.convert_to_constants import \
    convert_variables_to_constants_v2

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite
import keras_models  # adds its templates
from keras_cases import TEMPLATES, draw_case

FORMS = ["keras", "h5", "saved", "frozen", "float", "half", "hybrid", "int8",
         "16x8"]
LITE = ("float", "half", "hybrid", "int8", "16x8")  # .tflite
REFERENCE = tf.lite.experimental.OpResolverType.BUILTIN_REF


def first(a):
    return np.ascontiguousarray(np.moveaxis(a, -1, 1)) if a.ndim > 2 else a


def quiet(f, *a, **k):
    with suite.silent():
        return f(*a, **k)


def write(form, model, inputs, folder):
    """The file, in that form."""
    path = os.path.join(folder, "m." + {"keras": "keras", "h5": "h5"}.get(
        form, "pb" if form == "frozen" else "tflite"))
    if form in ("keras", "h5"):
        quiet(model.save, path)
        return path
    if form == "saved":
        path = os.path.join(folder, "saved")
        shutil.rmtree(path, ignore_errors=True)
        quiet(model.export, path, verbose=False)
        return path
    call = tf.function(lambda *x: model(
        list(x) if len(x) > 1 else x[0], training=False))
    f = call.get_concrete_function(*[tf.TensorSpec(x.shape, x.dtype)
                                     for x in inputs])
    if form == "frozen":
        with open(path, "wb") as out:
            out.write(convert_variables_to_constants_v2(
                f).graph.as_graph_def().SerializeToString())
        return path
    # Frozen: of variables TensorFlow writes handles without their values.
    c = tf.lite.TFLiteConverter.from_concrete_functions(
        [convert_variables_to_constants_v2(f, lower_control_flow=False)])
    if form != "float":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "half":
        c.target_spec.supported_types = [tf.float16]
    if form in ("int8", "16x8"):
        draw = np.random.default_rng(5)

        def data():
            for _ in range(8):
                yield [draw.standard_normal(x.shape).astype(np.float32)
                       if x.dtype == np.float32 else x for x in inputs]
        c.representative_dataset = data
        c.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8 if form == "int8" else
            tf.lite.OpsSet.
            EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    with open(path, "wb") as out:
        out.write(quiet(c.convert))
    return path


def interpret(path, inputs):
    """Outputs of the reference kernels, and the size of their units."""
    t = tf.lite.Interpreter(path, experimental_op_resolver_type=REFERENCE,
                            num_threads=1)
    t.allocate_tensors()
    left = list(inputs)
    for d in sorted(t.get_input_details(), key=lambda d: d["name"]):
        t.set_tensor(d["index"], left.pop(0))
    t.invoke()
    return [t.get_tensor(d["index"]) for d in t.get_output_details()]


def close(got, want, loose):
    """"" or what differs.  Pictures may have their channels first."""
    whys = []
    for w in (want, first(want)):
        if got.shape != w.shape:
            whys.append("shape %s, expected %s" % (got.shape, w.shape))
            continue
        g, v = got.astype(np.float64), w.astype(np.float64)
        finite = np.isfinite(v)
        if (not np.array_equal(finite, np.isfinite(g)) or not np.array_equal(
                g[~finite], v[~finite], equal_nan=True)):
            whys.append("infinities or NaN")
            continue
        e = np.abs(g - v)[finite].max(initial=0) / np.abs(
            v[finite]).max(initial=1e-30)
        if e <= (loose if want.dtype.kind == "f" else 0):
            return ""
        whys.append("%.1e of the largest output" % e)
    return whys[-1] if got.shape != want.shape else whys[0]


def run(a, model, inputs, folder):
    """Outputs in the model's order, or a message."""
    facts = json.loads(suite.run(a.wconv, "inspect", "--json", model)[1])
    files, given = [], facts["inputs"]
    if folder != "first":  # graphs name inputs x_0, x_1, ... in any order
        given = sorted(given, key=lambda d: d["name"])
    for i, (x, d) in enumerate(zip(inputs, given)):
        fits = [y for y in (x, first(x)) if len(y.shape) == len(d["shape"])
                and all(m in (-1, n) for m, n in zip(d["shape"], y.shape))]
        if len(fits) > 1 and x.ndim > 2:
            return None, "ambiguous"
        path = "%s/in%d.npy" % (a.folder, i)
        np.save(path, fits[0] if fits else x)
        files.append((facts["inputs"].index(d), path))
    out = a.folder + "/out"
    shutil.rmtree(out, ignore_errors=True)
    rc, text = suite.run(a.infer, "-m", model, "-q", "--threads=1",
                         "--export-output=" + out,
                         "--load-inputs=" + ",".join(
                             path for _, path in sorted(files)))
    if rc != 0:
        return None, text
    return [suite.load(os.path.join(out, suite.file_name(n)), ())
            for n in facts["outputs"]], ""


def attempt(a, form, model, inputs, want):
    """(status, why)"""
    try:
        path = write(form, model, inputs, a.folder)
        if path.endswith("tflite"):
            want = interpret(path, inputs)
    except Exception as e:  # whatever TensorFlow says
        return "not exported", " ".join(str(e).split())[:200]
    target = a.folder + "/m.infer"
    rc, text = suite.run(a.wconv, path, "-o", target, "-q", *(
        ["--dynamic-range"] if form == "hybrid" else []))
    if rc != 0:
        return "refused" if rc == 2 else "crashed", text.replace(path, "")
    got, text = run(a, target, inputs,
                    "first" if form in ("keras", "h5") else "")
    if text == "ambiguous":
        return "not exported", "sizes that do not tell the order of axes"
    if got is None:
        return "run refused", text
    if len(got) != len(want):
        return "differs", "%d outputs, expected %d" % (len(got), len(want))
    left = list(want)
    for i, g in enumerate(got):
        whys = [close(g, w, 1e-4) for w in left]
        if form == "frozen" or path.endswith("tflite") or form == "saved":
            # such outputs have no order of their own
            if "" not in whys:
                return "differs", whys[0]
            left.pop(whys.index(""))
        elif close(g, want[i], 1e-4):
            return "differs", close(g, want[i], 1e-4)
    return "match", ""


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=60)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--forms", default=",".join(FORMS))
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    by_form = collections.defaultdict(collections.Counter)
    for i in range(a.first, a.first + a.count):
        draw = random.Random("%d %d" % (a.seed, i))
        seed = draw.randrange(1 << 30)
        name = draw.choice(sorted(TEMPLATES))
        if a.only and not re.search(a.only, name):
            continue
        keras.utils.set_random_seed(seed)
        keras.backend.clear_session()
        text = name
        try:
            model, inputs, text = draw_case(name, draw)
            want = [np.asarray(y) for y in tf.nest.flatten(
                model(inputs if len(inputs) > 1 else inputs[0],
                      training=False))]
            again = [np.asarray(y) for y in tf.nest.flatten(
                model(inputs if len(inputs) > 1 else inputs[0],
                      training=False))]
            if any(not np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
                   for x, y in zip(want, again)):
                raise ValueError("random")
        except Exception as e:  # Keras refuses these arguments
            total["not built"] += 1
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"case": i, "name": name, "form": "",
                                      "text": text, "status": "not built",
                                      "why": str(e)[:300]}), file=f)
            continue
        for form in a.forms.split(","):
            status, why = attempt(a, form, model, inputs, want)
            total[status] += 1
            by_form[form][status] += 1
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"case": i, "name": name, "form": form,
                                      "text": text, "status": status,
                                      "why": why}), file=f)
            if status not in ("match", "not exported"):
                causes[status, form].append(("%d %s" % (i, text), why))
    for form, n in by_form.items():
        print("%-7s %s" % (form, dict(n)))
    return suite.report(total, causes, left_out=("not exported", "not built"))


if __name__ == "__main__":
    sys.exit(main())
