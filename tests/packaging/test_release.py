"""The workflow of a release, as far as it can be proven without its machines."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import midge
from tests.conftest import ROOT
from tests.packaging import wheels

PATH = ROOT / ".github" / "workflows" / "release.yml"
TEXT = PATH.read_text()
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
FILES = {"midge/py.typed": b"", "midge/protocol/frame.pxd": b"", "midge/protocol/frame.py": b""}


def script(start: str) -> str:
    """Return the commands of the step whose name begins with `start`."""
    (found,) = [step["run"] for step in STEPS if step.get("name", "").startswith(start)]
    return str(found)


def run_script(commands: str, folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"GITHUB_REF_NAME": tag}
    command = ["bash", "-euo", "pipefail", "-c", commands]
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )


def test_actions_are_pinned_and_get_no_more_rights_than_they_need() -> None:
    used = re.findall(r"uses: (.*)", TEXT)
    assert len(used) > 10
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)] == []
    assert yaml.safe_load(TEXT)["permissions"] == {}
    may_write = {name for name, job in JOBS.items() if "write" in job["permissions"].values()}
    assert may_write == {"check", "image", "publish"}
    assert all("timeout-minutes" in job for job in JOBS.values())


def test_only_a_tag_publishes() -> None:
    for name in ("image", "publish"):
        assert JOBS[name]["if"] == "github.ref_type == 'tag'"
    assert JOBS["publish"]["needs"] == ["check", "image"]


def test_no_step_puts_an_expression_into_its_commands() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("name", ["tests/packaging/installed.py", "tests/packaging/wheels.py"])
def test_programs_that_it_runs_are_there(name: str) -> None:
    module = name.removesuffix(".py").replace("/", ".")
    assert name in TEXT or f"-m {module}" in TEXT
    assert (ROOT / name).exists()


def test_a_tag_that_is_not_the_version_is_refused(tmp_path: Path) -> None:
    commands = script("Refuse a tag")
    (tmp_path / "midge").mkdir()
    shutil.copy(ROOT / "midge/version.py", tmp_path / "midge")
    (tmp_path / "CHANGELOG.md").write_text(f"## [{midge.__version__}] - 2026-01-01\n")
    assert run_script(commands, tmp_path, f"v{midge.__version__}").returncode == 0
    assert run_script(commands, tmp_path, "v9.9.9").returncode != 0
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert run_script(commands, tmp_path, f"v{midge.__version__}").returncode != 0


def test_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    commands = script("Release with").partition("gh release")[0]
    text = "# Changelog\n## [Unreleased]\nno\n## [1.2.0] - today\n\n- Yes.\n## [1.1.0]\nold\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    assert run_script(commands, tmp_path, "v1.2.0").returncode == 0
    assert (tmp_path / "notes.md").read_text() == "\n- Yes.\n"
    assert run_script(commands, tmp_path, "v1.3.0").returncode != 0


def test_checkers_find_nothing() -> None:
    for command in (
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", PATH],
        ["zizmor", "--offline", "--persona=pedantic", PATH],
    ):
        if shutil.which(str(command[0])):
            subprocess.run(command, check=True)


def packed(folder: Path, files: dict[str, bytes], tag: str) -> Path:
    """Make a wheel of `files`; `->` at the end of a name makes a link."""
    path = folder / f"midge-1-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name.removesuffix("->"))
            kind = stat.S_IFLNK if name.endswith("->") else stat.S_IFREG
            entry.external_attr = (kind | 0o644) << 16
            archive.writestr(entry, content)
    return path


SO = "midge/protocol/frame.cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("more", "tag", "fault"),
    [
        ({}, "py3-none-any", None),
        ({SO: b"ELF"}, "cp311-cp311-linux_x86_64", None),
        ({SO: b"ELF"}, "py3-none-any", "its tag does not say"),
        ({}, "cp311-cp311-linux_x86_64", "its tag does not say"),
        ({SO: b"ELF.symtab\0"}, "cp311-cp311-linux_x86_64", "has symbols"),
        ({"midge/other.cpython-311-darwin.so": b""}, "cp311-cp311-macosx", "has no source"),
        ({"midge/server->": b"../server"}, "py3-none-any", "it has a symbolic link"),
        ({"midge/frame.c": b""}, "py3-none-any", "it has midge/frame.c"),
        ({"tests/test_x.py": b""}, "py3-none-any", "tests/test_x.py is not in the sdist"),
    ],
)
def test_a_wheel_that_is_not_the_sdists_is_found(
    tmp_path: Path, more: dict[str, bytes], tag: str, fault: str | None
) -> None:
    found = wheels.faults(packed(tmp_path, FILES | more, tag), set(FILES))
    assert any(fault in one for one in found) if fault else found == []


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    sdist = tmp_path / "midge-1.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in FILES:
            member = tarfile.TarInfo(f"midge-1/{name}")
            archive.addfile(member)
    files = wheels.package_files(sdist)
    assert files == set(FILES)
    wheel = packed(tmp_path, {"midge/py.typed": b""}, "py3-none-any")
    assert "it lacks midge/protocol/frame.py" in wheels.faults(wheel, files)
    assert wheels.main(sdist, wheel) == 1
