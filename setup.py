"""Compile midge's hot modules; everything else about the distribution is in pyproject.toml.

A module is compiled when a `.pxd` of the same name lies beside its `.py`. Three environment
variables change the build:

- `MIDGE_PURE=1` builds no extension at all. It is the only way to a pure install: a compile that
  fails, fails the build.
- `MIDGE_BOUNDSCHECK=1` turns on every run-time check Cython has, for fuzzing.
- `MIDGE_SANITIZE=address` instruments the C code (any name that `-fsanitize=` takes).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED_FOLDERS = ("protocol", "sublist", "jetstream", "server")

# A `.pxd` of nothing but `cdef inline` functions is C for those who cimport it; the `.py` beside it
# is its interpreted twin, so there is nothing to compile.
INLINE_ONLY = frozenset(
    {
        "midge.jetstream.store.file.native",
        "midge.jetstream.store.numbers",
        "midge.jetstream.stream.ack_text",
        "midge.protocol.memory",
        "midge.server.routing.reserved",
        "midge.sublist.octets",
        "midge.sublist.thread_lock",
    }
)

HEADERS = ("*.pxd", "*.h")
"""What several modules share: a change in one of them concerns all."""

DIRECTIVES = {"language_level": 3, "annotation_typing": False, "embedsignature": True}
CHECKS = {"boundscheck": True, "wraparound": True, "nonecheck": True, "overflowcheck": True}

LAST_VARIANT = Path("build", "variant")


def compiled_modules(root: Path = Path()) -> dict[str, Path]:
    """Map the name of every module to compile to its source, relative to the checkout `root`."""
    found = {}
    for folder in COMPILED_FOLDERS:
        for pxd in sorted((root / "midge" / folder).rglob("*.pxd")):
            source = pxd.with_suffix(".py").relative_to(root)
            name = ".".join(source.with_suffix("").parts)
            if source.stem != "__init__" and (root / source).exists() and name not in INLINE_ONLY:
                found[name] = source
    return found


def is_set(switch: str) -> bool:
    """Tell whether the environment variable `switch` is set to anything but nothing or 0."""
    return os.environ.get(switch, "") not in {"", "0"}


def variant() -> str:
    """Name the kind of build that the environment asks for."""
    checks = "checked" if is_set("MIDGE_BOUNDSCHECK") else "release"
    sanitizer = os.environ.get("MIDGE_SANITIZE", "")
    return f"{checks}-{sanitizer}" if sanitizer else checks


def is_older_than_headers(c_folder: Path) -> bool:
    """Tell whether a generated file is older than any `.pxd` or `.h`.

    Cython follows `from midge.protocol cimport frame` to the package and not to `frame.pxd`, so it
    would miss a change in what it inlines.
    """
    folders = [Path("midge", folder) for folder in COMPILED_FOLDERS]
    headers = [path for folder in folders for kind in HEADERS for path in folder.rglob(kind)]
    newest = max((path.stat().st_mtime for path in headers), default=0.0)
    return any(path.stat().st_mtime < newest for path in c_folder.rglob("*.c"))


def extensions() -> list[Extension]:
    """List what to compile, still as Python sources."""
    if is_set("MIDGE_PURE"):
        return []
    compile_args, link_args = ["-O3", "-g0"], []
    if sanitizer := os.environ.get("MIDGE_SANITIZE", ""):
        link_args = [f"-fsanitize={sanitizer}"]
        compile_args = ["-O1", "-g", "-fno-omit-frame-pointer", *link_args]
    return [
        Extension(
            name,
            [str(source)],
            include_dirs=["."],
            extra_compile_args=[*compile_args, "-pthread"],
            extra_link_args=[*link_args, "-pthread"],
        )
        for name, source in compiled_modules().items()
    ]


class CythonBuild(build_ext):
    """Translate the sources with Cython, then compile them.

    The translation happens here and not when `setup.py` is read, so that asking for metadata or
    making an sdist needs no C compiler and leaves no C file in it.
    """

    def run(self) -> None:
        """Build everything anew when the last build in place was of another variant."""
        built = LAST_VARIANT.read_text() if LAST_VARIANT.exists() else variant()
        self.force = self.force or built != variant()
        super().run()
        if self.inplace and self.extensions:
            LAST_VARIANT.parent.mkdir(exist_ok=True)
            LAST_VARIANT.write_text(variant())
            for extension in self.extensions:  # a module that needed no work is fresh all the same
                Path(self.get_ext_fullpath(extension.name)).touch()

    def build_extensions(self) -> None:
        """Put the generated C file in place of each Python source."""
        from Cython.Build import cythonize  # noqa: PLC0415 - a pure build does without Cython

        c_folder = Path("build", "cython", variant())
        directives: dict[str, Any] = DIRECTIVES | (CHECKS if is_set("MIDGE_BOUNDSCHECK") else {})
        translated = cythonize(
            self.extensions,
            build_dir=str(c_folder),
            compiler_directives=directives,
            include_path=["."],
            force=self.force or is_older_than_headers(c_folder),
        )
        c_sources = {extension.name: extension for extension in translated}
        for extension in self.extensions:
            extension.sources = c_sources[extension.name].sources
            extension.depends = c_sources[extension.name].depends
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": CythonBuild})
