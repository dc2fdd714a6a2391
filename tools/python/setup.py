# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against libinfer.

LIBINFER_BUILD names a build folder of libinfer: its static library becomes part of
the extension and its wconv and train part of the package.  Without it pkg-config
finds the installed library, and both are looked for in PATH when they are needed.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BUILD = os.environ.get("LIBINFER_BUILD")


def pkg_config(*arguments):
    path = os.environ.get("PKG_CONFIG_PATH", "")
    if BUILD:
        path = f"{Path(BUILD).resolve()}/libinfer:{path}"
    return shlex.split(
        subprocess.check_output(
            [os.environ.get("PKG_CONFIG", "pkg-config"), *arguments, "libinfer"],
            env={**os.environ, "PKG_CONFIG_PATH": path},
            text=True,
        )
    )


def flags():
    """Compiler and linker arguments."""
    if not BUILD:
        return pkg_config("--cflags"), pkg_config("--libs")
    library = Path(BUILD).resolve() / ".libs" / "libinfer.a"
    if not library.exists():
        raise SystemExit(f"{library}: not there; build libinfer with its static library")
    private = [a for a in pkg_config("--static", "--libs") if a != "-linfer"]
    return [f"-I{HERE.parent.parent / 'include'}"], [str(library), *private]


class BuildWithTools(build_py):
    """Adds wconv and train of the build folder to the package."""

    def run(self):
        super().run()
        if not BUILD:
            return
        to = Path(self.build_lib) / "libinfer" / "bin"
        to.mkdir(parents=True, exist_ok=True)
        for tool in ("wconv", "train"):
            shutil.copy(Path(BUILD) / tool, to / tool)
            subprocess.call(["strip", str(to / tool)])


compile_args, link_args = flags()
setup(
    ext_modules=[
        Extension(
            "libinfer._native",
            sources=[
                f"src/{name}.c" for name in ("module", "tensor", "borrow", "model", "session")
            ],
            depends=["src/native.h"],
            define_macros=[("Py_LIMITED_API", "0x030b0000"), ("_GNU_SOURCE", None)],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden", *compile_args],
            extra_link_args=["-Wl,-s,--as-needed,--exclude-libs,ALL", *link_args],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_py": BuildWithTools},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
