# SPDX-License-Identifier: Apache-2.0
"""Exceptions of libinfer.  Their text is the library's own."""


class Error(Exception):
    """A failure of the library; `code` is that of infer.h, `status` its name."""

    code = 0
    status = ""


class ArgumentError(Error, ValueError):
    """Names, shapes or types that do not fit the model."""


class UnsupportedError(Error):
    """Valid, but not supported."""


class FormatError(Error):
    """A file is malformed."""


class FileError(Error, OSError):
    """The operating system refused a read or write."""


class MemoryLimitError(Error, MemoryError):
    """Out of memory, or over a limit."""


class DeviceError(Error):
    """A device or vendor library failed or is absent."""


class MismatchError(Error):
    """Two results that must agree differ."""


class ConversionError(Error):
    """wconv refused; `status` is "conversion", `code` its exit status."""


class TrainingError(Error):
    """train refused or failed; `status` is "training", `code` its exit status."""


_CLASSES = {
    -1: ArgumentError,
    -2: UnsupportedError,
    -3: FormatError,
    -4: FileError,
    -5: MemoryLimitError,
    -6: DeviceError,
    -7: MismatchError,
}


def make(code, status, text):
    """The exception for a code of infer.h."""
    error = _CLASSES.get(code, Error)(text)
    error.code = code
    error.status = status
    return error
