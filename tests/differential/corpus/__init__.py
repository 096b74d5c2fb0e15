"""The corpus: byte scripts by topic, each with the behaviour it pins."""

from __future__ import annotations

import importlib
import pkgutil

from ..script import Script


def load() -> tuple[Script, ...]:
    """All scripts of all topic modules, in a fixed order."""
    scripts: list[Script] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        scripts += importlib.import_module(f"{__name__}.{module.name}").SCRIPTS
    return tuple(scripts)
