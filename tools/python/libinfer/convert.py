# SPDX-License-Identifier: Apache-2.0
"""Conversion of trained weights by wconv."""

import os
import shutil
import subprocess
from pathlib import Path

from .errors import ConversionError


def find_wconv():
    """The path of wconv: LIBINFER_WCONV, the package's own, or that in PATH."""
    named = os.environ.get("LIBINFER_WCONV")
    own = Path(__file__).parent / "bin" / "wconv"
    found = named or (str(own) if own.exists() else shutil.which("wconv"))
    if not found:
        raise FileNotFoundError(
            "wconv is neither in the package nor in PATH; LIBINFER_WCONV may name it"
        )
    return found


def _option(name, value):
    """A keyword as an option of wconv: None and False are left out."""
    option = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (list, tuple)):
        value = ",".join(str(v) for v in value)
    return [f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def convert(source, output=None, **options):
    """Converts trained weights into a model file and returns its path.

    source: ONNX, PyTorch, safetensors, NumPy, Keras, TensorFlow, TensorFlow Lite,
    Darknet, Caffe or ncnn.  output: by default the source's name with .infer.
    Options are those of wconv(1) with _ for -: arch="resnet50", preset="imagenet",
    labels="synset.txt", mean=(0.5, 0.5, 0.5), quantize="int8", verify=True.
    Raises ConversionError with wconv's text.
    """
    source = Path(source)
    output = Path(output) if output is not None else source.with_suffix(".infer")
    arguments = [find_wconv(), "-q", f"--output={output}"]
    for name, value in options.items():
        arguments += _option(name, value)
    done = subprocess.run(
        [*arguments, "--", str(source)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        error = ConversionError(done.stdout.strip() or "wconv was stopped")
        error.code = done.returncode
        error.status = "conversion"
        raise error
    return output
