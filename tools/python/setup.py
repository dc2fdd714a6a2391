# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against libinfer.

LIBINFER_BUILD names a build folder of libinfer: its static library becomes part of
the extension and its wconv and train part of the package.  Without it pkg-config
finds the installed library, and both are looked for in PATH when they are needed.
Where it finds none the folder build of the source tree is taken, if it is built.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
PKG_CONFIG = os.environ.get("PKG_CONFIG", "pkg-config")


def is_installed():
    try:
        return subprocess.call([PKG_CONFIG, "--exists", "libinfer"]) == 0
    except OSError:
        return False


def find_build():
    """The build folder to take the library from; None: the installed one."""
    named = os.environ.get("LIBINFER_BUILD")
    if named:
        return Path(named).resolve()
    if is_installed():
        return None
    beside = HERE.parent.parent / "build"
    if (beside / ".libs" / "libinfer.a").exists():
        return beside
    raise SystemExit(
        f"no libinfer: pkg-config finds none that is installed, and {beside} holds none. "
        "Build it (samples/quickstart), install it (make install), or name a build "
        "folder: LIBINFER_BUILD=FOLDER pip install ./tools/python"
    )


BUILD = find_build()


def pkg_config(*arguments):
    path = os.environ.get("PKG_CONFIG_PATH", "")
    if BUILD:
        path = f"{BUILD}/libinfer:{path}"
    return shlex.split(
        subprocess.check_output(
            [PKG_CONFIG, *arguments, "libinfer"],
            env={**os.environ, "PKG_CONFIG_PATH": path},
            text=True,
        )
    )


def run_path():
    """Where the loader finds a library that lies in none of the system's folders."""
    folder = " ".join(pkg_config("--variable=libdir"))
    if "PKG_CONFIG_SYSROOT_DIR" in os.environ or folder.startswith(("/usr/lib", "/lib/", "/lib64")):
        return []
    return [f"-Wl,-rpath,{folder}"]


def flags():
    """Compiler and linker arguments."""
    if not BUILD:
        return pkg_config("--cflags"), [*pkg_config("--libs"), *run_path()]
    library = BUILD / ".libs" / "libinfer.a"
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
            shutil.copy(BUILD / tool, to / tool)
            subprocess.call(["strip", str(to / tool)])


compile_args, link_args = flags()
setup(
    ext_modules=[
        Extension(
            "libinfer._native",
            sources=[
                f"src/{name}.c"
                for name in ("module", "tensor", "borrow", "model", "pictures", "session")
            ],
            depends=["src/native.h"],
            define_macros=[("Py_LIMITED_API", "0x030b0000"), ("_GNU_SOURCE", None)],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden", *compile_args],
            extra_link_args=["-Wl,-s,--as-needed,--exclude-libs,ALL", *link_args],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_py": BuildWithTools},
    # What lies in build/ may be linked with another library.
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "build_ext": {"force": True}},
)
