"""The interpreted midge: a copy of the checkout without extension modules."""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "bench" / "pure"
_COMPILED = shutil.ignore_patterns("*.so", "*.c", "__pycache__")


def copied_tree() -> Path:
    """Make a new copy of midge and the benchmarks; return the folder to import both from."""
    shutil.rmtree(TREE, ignore_errors=True)
    for folder in ("midge", "bench"):
        shutil.copytree(ROOT / folder, TREE / folder, ignore=_COMPILED)
    shutil.copy(ROOT / "pyproject.toml", TREE)
    return TREE


def server_argv() -> tuple[str, ...]:
    """Copy the modules, and return the command that starts the interpreted server from there."""
    # -P: the folder in which the bench runs may have the compiled modules.
    return ("env", f"PYTHONPATH={copied_tree()}", sys.executable, "-P", "-m", "midge.server")
