# SPDX-License-Identifier: Apache-2.0
"""The command lines of libinfer, as convert() and train() run them."""

import logging
import os
import shutil
import subprocess
from pathlib import Path


def find_tool(name):
    """The path of wconv or train: LIBINFER_WCONV or LIBINFER_TRAIN, the package's
    own, or that in PATH."""
    variable = "LIBINFER_" + name.upper()
    named = os.environ.get(variable)
    own = Path(__file__).parent / "bin" / name
    found = named or (str(own) if own.exists() else shutil.which(name))
    if not found:
        raise FileNotFoundError(
            f"{name} is neither in the package nor in PATH; {variable} may name it"
        )
    return found


def option(name, value):
    """A keyword as an option: None and False are left out."""
    word = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [word]
    if isinstance(value, (list, tuple)):
        value = ",".join(str(v) for v in value)
    return [f"{word}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def options(named):
    """All keywords as options."""
    return [word for name, value in named.items() for word in option(name, value)]


def run(arguments, error, what):
    """Runs a tool; returns its standard output, or raises `error` with its text.
    Its notes are warnings of the logger "libinfer"."""
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        text = (done.stdout + done.stderr).strip()
        raised = error(text or f"{Path(arguments[0]).name} was stopped")
        raised.code = done.returncode
        raised.status = what
        raise raised
    for line in done.stderr.splitlines():
        logging.getLogger("libinfer").log(
            logging.WARNING if ": note: " in line else logging.INFO, "%s", line
        )
    return done.stdout
