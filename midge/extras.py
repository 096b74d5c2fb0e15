"""Name the optional packages that a part of midge needs and an installation lacks."""

from __future__ import annotations

import re
from importlib import metadata

_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_NESTED = re.compile(r"midge\[([\w-]+)\]")


EXTRAS = {"rich": "cli"} | dict.fromkeys(
    ("aiohttp", "bcrypt", "cryptography", "nacl", "prometheus_client", "websockets"), "server"
)
"""The extra that has each module that several parts of midge need."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the packages themselves: midge is on no index, so pip would find nothing under its
    name, or something else. Without midge's metadata it names the checkout.
    """
    packages = _packages(extra)
    if not packages:
        return f"python -m pip install '.[{extra}]' in midge's checkout"
    return " ".join(["python -m pip install", *(f"'{package}'" for package in packages)])


def _packages(extra: str) -> list[str]:
    try:
        requirements = metadata.requires("midge") or []
    except metadata.PackageNotFoundError:
        return []
    found: list[str] = []
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if extra not in _EXTRA.findall(marker):
            continue
        nested = _NESTED.fullmatch(package.strip().replace(" ", ""))
        found += _packages(nested[1]) if nested else [package.strip()]
    return found
