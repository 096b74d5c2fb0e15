"""Compile the loops against the compiled midge on the path, or use them uncompiled."""

import importlib
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from midge.sublist import sublist

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = "bench.micro.loops"


def is_compiled() -> bool:
    """Return whether the imported midge is compiled."""
    return not str(sublist.__file__).endswith(".py")


def load_loops() -> ModuleType:
    """Return the loops, built the same way as the midge that they call."""
    if is_compiled():
        _compile()
    sys.modules.pop(NAME, None)
    importlib.invalidate_caches()
    return importlib.import_module(NAME)


def _compile() -> None:
    """Build the extension module beside its source, unless it is newer than all its sources."""
    source = Path(__file__).with_name("loops.py")
    target = source.with_name(f"loops{sysconfig.get_config_var('EXT_SUFFIX')}")
    made_of = [source, *source.parent.glob("*.pxd"), *ROOT.glob("[!b.]*/**/*.pxd")]
    if target.exists() and target.stat().st_mtime > max(p.stat().st_mtime for p in made_of):
        return
    from Cython.Build import cythonize  # noqa: PLC0415 - only a compiled build has it installed
    from setuptools import Distribution, Extension  # noqa: PLC0415

    extension = Extension(NAME, [str(source.relative_to(ROOT))])
    modules = cythonize(  # type: ignore[no-untyped-call]
        [extension],
        build_dir=str(ROOT / "build" / "micro"),
        include_path=[str(ROOT)],
        compiler_directives={"language_level": 3, "annotation_typing": False},
        quiet=True,
        force=True,
    )
    command = Distribution({"name": "loops", "ext_modules": modules}).get_command_obj("build_ext")
    command.inplace = True
    command.build_temp = str(ROOT / "build" / "micro")
    command.ensure_finalized()
    command.run()
