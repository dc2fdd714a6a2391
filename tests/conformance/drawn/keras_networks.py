#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of keras.applications with random weights, as Keras and TensorFlow
write them.

    keras_networks.py FOLDER --wconv=build/wconv --infer=build/infer
                      [--seed=1] [--each=1] [--size=96] [--forms=LIST]
                      [--only=REGEX] [--list=FILE]

Draws some members of each family and compares each in all forms of the list
(those of keras_graphs.py) on two pictures (.tflite: one).  Statistics of batch
norms are those of eight pictures, so that values stay of one size.
Exit status: 1 where a case differs or crashes.
"""
import collections
import json
import os
import random
import re
import sys

import keras_graphs as graphs  # chooses the backend of Keras

import keras
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite

# Members that are drawn from; the largest are left out for time.
FAMILIES = {
    "ConvNeXt": ["ConvNeXtTiny", "ConvNeXtSmall"],
    "DenseNet": ["DenseNet121", "DenseNet169", "DenseNet201"],
    "EfficientNet": ["EfficientNetB0", "EfficientNetB1", "EfficientNetB2",
                     "EfficientNetB3"],
    "EfficientNetV2": ["EfficientNetV2B0", "EfficientNetV2B1",
                       "EfficientNetV2B2", "EfficientNetV2B3",
                       "EfficientNetV2S"],
    "Inception": ["InceptionV3", "InceptionResNetV2"],
    "MobileNet": ["MobileNet", "MobileNetV2"],
    "MobileNetV3": ["MobileNetV3Small", "MobileNetV3Large"],
    "NASNet": ["NASNetMobile"],
    "ResNet": ["ResNet50", "ResNet101"],
    "ResNetV2": ["ResNet50V2", "ResNet101V2"],
    "VGG": ["VGG16", "VGG19"],
    "Xception": ["Xception"],
}


def layers(model):
    for l in model.layers:
        if hasattr(l, "layers"):
            yield from layers(l)
        else:
            yield l


def enliven(model, x, draw):
    """Weights in which a mistake shows, statistics of these pictures."""
    for w in model.weights:
        v = np.asarray(w)
        if v.dtype == np.float32 and v.size > 1 and (v == v.flat[0]).all():
            w.assign(v + draw.uniform(-0.2, 0.5, v.shape).astype(v.dtype))
    norms = [l for l in layers(model) if hasattr(l, "moving_variance")
             and hasattr(l, "momentum")]
    kept = [l.momentum for l in norms]
    for l in norms:
        l.momentum = 0.0
    model(x, training=True)
    for l, m in zip(norms, kept):
        l.momentum = m
        v = np.asarray(l.moving_variance)
        l.moving_variance.assign(np.maximum(np.nan_to_num(v, nan=1.0), 0.1))
    for l in layers(model):
        if type(l).__name__ == "Normalization":
            l.finalize_state()  # of the weights that were just set


def build(name, size, draw):
    if "Inception" in name or name == "Xception":
        size = max(size, 128)  # the last layers have more than one pixel
    model = getattr(keras.applications, name)(
        weights=None, input_shape=(size, size, 3), classes=100)
    x = draw.uniform(0, 255, (8, size, size, 3)).astype(np.float32)
    if not any(type(l).__name__ in ("Rescaling", "Normalization")
               for l in model.layers):
        x = x / 127.5 - 1
    enliven(model, x, draw)
    return model, x[:2]


def main():
    p = suite.parser(__doc__)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--each", type=int, default=1)
    p.add_argument("--size", type=int, default=96)
    p.add_argument("--forms", default="keras,h5,saved,frozen,float,hybrid")
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    by_form = collections.defaultdict(collections.Counter)
    for family, names in FAMILIES.items():
        r = random.Random("%d %s" % (a.seed, family))
        for name in r.sample(names, min(a.each, len(names))):
            if a.only and not re.search(a.only, name):
                continue
            keras.utils.set_random_seed(r.randrange(1 << 30))
            keras.backend.clear_session()
            model, x = build(name, a.size,
                             np.random.default_rng(r.randrange(1 << 30)))
            for form in a.forms.split(","):
                one = x[:1] if form in graphs.LITE else x
                want = [np.asarray(model(one, training=False))]
                status, why = graphs.attempt(a, form, model, [one], want)
                total[status] += 1
                by_form[form][status] += 1
                print("%-18s %-7s %-12s %s" % (name, form, status, why[:120]),
                      flush=True)
                if a.list:
                    with open(a.list, "a") as f:
                        print(json.dumps({"name": name, "form": form,
                                          "status": status, "why": why}),
                              file=f)
                if status not in ("match", "not exported"):
                    causes[status, form].append((name, why))
    for form, n in by_form.items():
        print("%-7s %s" % (form, dict(n)))
    return suite.report(total, causes, left_out=("not exported",))


if __name__ == "__main__":
    sys.exit(main())
