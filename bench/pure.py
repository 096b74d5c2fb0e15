"""The interpreted midge: a copy of the checkout's modules with no extension module among them."""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "bench" / "pure"
_COMPILED = shutil.ignore_patterns("*.so", "*.c", "__pycache__")


def copied_tree() -> Path:
    """Copy midge and the benchmarks anew; return the folder to import both from."""
    shutil.rmtree(TREE, ignore_errors=True)
    for folder in ("midge", "bench"):
        shutil.copytree(ROOT / folder, TREE / folder, ignore=_COMPILED)
    shutil.copy(ROOT / "pyproject.toml", TREE)
    return TREE


def server_argv() -> tuple[str, ...]:
    """Copy the modules, and give the command that starts the interpreted server from there."""
    # -P: the folder that the bench runs in may hold the compiled modules.
    return ("env", f"PYTHONPATH={copied_tree()}", sys.executable, "-P", "-m", "midge.server")
