"""Sphinx's settings; `docs/site/build.py` runs it on a copy of the pages."""

from __future__ import annotations

import os
import re
from typing import Any

PACKAGES = ("midge", "midge.server.auth", "midge.server.interceptors", "midge.protocol")
PACKAGES += ("midge.sublist", "midge.testing", "midge.testing.strategies", "midge.tables")

project = "midge"
author = "the authors of midge"
html_title = "midge"
html_theme = "furo"
html_static_path = [os.environ["MIDGE_STATIC"]]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_css_files = ["site.css"]
html_js_files = [("mermaid.min.js", {"defer": "defer"}), ("drawings.js", {"defer": "defer"})]

extensions = ["myst_parser", "autoapi.extension"]
default_role = "code"
myst_heading_anchors = 6
myst_fence_as_directive: set[str] = set()
suppress_warnings = [
    # Modules of which only some names are public are there in part.
    "autoapi.python_import_resolution",
    # A program's output may have anything in it.
    "misc.highlighting_failure",
    # `bytes` is Python's type, and a field of two classes.
    "ref.python",
]

autoapi_dirs = [os.environ["MIDGE_API_SOURCES"]]
autoapi_root = "api"
autoapi_add_toctree_entry = False
autoapi_own_page_level = "module"
autoapi_options = ["members", "undoc-members", "imported-members", "inherited-members"]
autoapi_python_class_content = "class"
autoapi_member_order = "groupwise"
autodoc_typehints = "none"


def skip(_app: Any, what: str, name: str, obj: Any, skipped: bool, _options: Any) -> bool:
    """Skip what is not public: other modules, members of Python's own classes."""
    if what in {"package", "module"}:
        return name not in PACKAGES
    inherited = (getattr(obj, "obj", None) or {}).get("inherited_from") or {}
    if str(inherited.get("full_name", "")).startswith(("builtins.", "enum.", "typing.")):
        return True
    return skipped


def lexers(app: Any) -> None:
    """Show configuration files of any form without colors."""
    from pygments.lexers.special import TextLexer  # noqa: PLC0415 - only Sphinx has it

    for name in ("conf", "mermaid"):
        app.add_lexer(name, TextLexer)


def sections(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Turn the section `Raises:` of a docstring into fields; other sections stay as they are."""
    found, inside = [], False
    for line in lines:
        if line.strip() == "Raises:":
            inside = True
            found.append("")
            continue
        inside = inside and (not line.strip() or line.startswith("    "))
        match = re.match(r"    (\w[\w.]*): (.*)", line) if inside else None
        if match:
            found.append(f":raises {match[1]}: {match[2]}")
        else:
            found.append(line)
    lines[:] = found


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("autodoc-process-docstring", sections)
    app.connect("autoapi-skip-member", skip)
    app.connect("builder-inited", lexers)
