"""Compare wheels with the sdist: `python -m tests.packaging.wheels midge-1.tar.gz *.whl`."""

from __future__ import annotations

import re
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

EXTENSION = re.compile(r"\.(?:cpython|abi3|cp\d)[^/]*\.so$|\.pyd$")
FOREIGN = re.compile(r"(?:^|/)(?:tests?|bench|docs|examples)/|\.(?:c|o|pyc)$|(?:^|/)test_[^/]*$")


def package_files(sdist: Path) -> set[str]:
    """Return the files of the import package in `sdist`, by their names in a wheel."""
    with tarfile.open(sdist) as archive:
        names = (one.name.partition("/")[2] for one in archive if one.isfile())
        return {name for name in names if name.startswith("midge/")}


def compiled_sources(files: set[str]) -> set[str]:
    """Return the extension modules that `files` allow for, without suffix."""
    stems = {name.removesuffix(".py") for name in files if name.endswith(".py")}
    return {name for name in stems if f"{name}.pxd" in files and not name.endswith("/__init__")}


def faults(wheel: Path, files: set[str]) -> list[str]:
    """Return the faults of a wheel of the package with these `files`; a sentence each."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        if any(stat.S_ISLNK(one.external_attr >> 16) for one in entries):
            found.append("it has a symbolic link")
        names = {one.filename for one in entries if ".dist-info/" not in one.filename}
        extensions = {name for name in names if EXTENSION.search(name)}
        # Their names are in the table of sections' names, unless they have been stripped.
        loaded = [name for name in extensions if b".symtab\0" in archive.read(name)]
    found += [f"{name} has symbols" for name in loaded]
    found += [f"it has {name}" for name in names if FOREIGN.search(name)]
    found += [f"it lacks {name}" for name in files - names]
    found += [f"{name} is not in the sdist" for name in names - extensions - files]
    stems = {EXTENSION.sub("", name) for name in extensions}
    found += [f"{name} has no source" for name in stems - compiled_sources(files)]
    if not files >= {"midge/py.typed", "midge/protocol/frame.pxd"}:
        found.append("the sdist lacks py.typed or the .pxd")
    if wheel.name.endswith("-none-any.whl") == bool(extensions):
        found.append("its tag does not say whether it has extension modules")
    return sorted(found)


def main(sdist: Path, *wheels: Path) -> int:
    """Print the faults of `wheels`; return the exit code."""
    files = package_files(sdist)
    wrong = 0
    for wheel in wheels:
        for fault in faults(wheel, files):
            wrong = 1
            print(f"{wheel.name}: {fault}")
    print(f"{len(wheels)} wheels, {len(files)} files each")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
