"""Dependencies have a least version and a pin, and none is a version known to be bad."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
ALL = [
    *RUNTIME,
    *(
        requirement
        for extra in PROJECT["optional-dependencies"].values()
        for requirement in map(Requirement, extra)
        if requirement.name != PROJECT["name"]
    ),
]

KNOWN_BAD = {
    "aiohttp": "<3.12.14",  # CVE-2025-53643: request smuggling in trailers
    "cryptography": "<44.0.1",  # CVE-2024-12797: bundled OpenSSL, raw public keys
    "pynacl": "<1.6.2",  # CVE-2025-69277: bundled libsodium, points outside the main group
    "pyarrow": ">=0.14,<14.0.1",  # CVE-2023-47248: code in untrusted files
    "setuptools": "<78.1.1",  # CVE-2025-47273: path traversal
}
"""Versions that must be neither pinned nor chosen; to be added to with every advisory read."""


def pinned(root: Path) -> dict[str, Version]:
    lines = (root / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if re.match(r"\w", line)]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("requirement", ALL, ids=str)
def test_dependency_has_a_least_version_and_a_pin(root: Path, requirement: Requirement) -> None:
    """An upper bound would keep users of midge from security updates of what it needs."""
    operators = {one.operator for one in requirement.specifier}
    assert operators == {">="} or operators == {"=="}
    assert pinned(root)[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("name", sorted(KNOWN_BAD))
def test_no_bad_version_is_pinned(root: Path, name: str) -> None:
    assert pinned(root)[name] not in SpecifierSet(KNOWN_BAD[name])


def test_constraints_cover_what_is_needed_in_turn(root: Path) -> None:
    """The closure of what a server needs, as the installed packages declare it."""
    from importlib.metadata import requires

    extras = PROJECT["optional-dependencies"]
    server = [*RUNTIME, *map(Requirement, (*extras["server"], *extras["cli"]))]
    known, left, seen = pinned(root), [one.name for one in server], set[str]()
    while left:
        name = canonicalize_name(left.pop())
        if name in seen:
            continue
        seen.add(name)
        assert name in known, f"{name} is not in constraints.txt"
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left.append(requirement.name)
    assert len(seen) > len(server)


def test_an_embedded_server_needs_a_codec_a_loop_and_a_log_alone() -> None:
    assert {requirement.name for requirement in RUNTIME} == {"msgspec", "structlog", "uvloop"}
