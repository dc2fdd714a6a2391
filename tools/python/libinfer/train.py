# SPDX-License-Identifier: Apache-2.0
"""Training of classifiers by train."""

import json
from pathlib import Path

from . import tools
from .errors import TrainingError


def train(data, output, **options):
    """Trains a classifier and returns what train(1) reports: a dict with steps,
    total_steps, seconds, checkpoint and, where there are validation pictures,
    val_loss, val_accuracy (0 to 1) and best_val_accuracy.

    data: a folder of MNIST's or CIFAR-10's files or of pictures by class
    (train/CLASS/..., test/CLASS/...).  output: the checkpoint, a safetensors file,
    which convert() takes without further options.
    Options are those of train(1) with _ for -: arch="lenet5", epochs=10, batch=128,
    optimizer="adam", lr=0.004, lr_policy="onecycle", device="cuda", resume=True.
    Blocks until the run ends, without the interpreter's lock.
    Raises TrainingError with train's text.
    """
    report = tools.run(
        [
            tools.find_tool("train"),
            "-q",
            "--json",
            f"--data={data}",
            f"--output={Path(output)}",
            *tools.options(options),
        ],
        TrainingError,
        "training",
    )
    return json.loads(report)
