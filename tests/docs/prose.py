"""Count sentence shapes that need a second reading: `python -m tests.docs.prose [--all]`.

Docstrings, comments and Markdown are searched, across line ends and without their code. A shape is
a place to reread and not always a fault, so each top-level folder has a limit: the count that it
had when its limit was last lowered. A folder above its limit fails, with a list of its places;
`--all` lists the places of all folders.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

LIMITS = {"bench": 1, "docs": 3, "jetstream": 2}
"""The most places in a folder. The root and other folders have none."""

SHAPES = {
    "name the noun: 'the messages that wait'": r"""
        \b[Ww]hat(?:ever)?\s(?:is|was|were|has|had|comes|came|goes|waits|lies|stands|stays|follows|
        fails|needs|belongs)\b(?![^.!?]*\?)""",
    "name the actor: 'a client that', 'the publisher'": r"""
        \b(?:[Ww]hom|[Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b
        |(?<![Pp]eople\s)(?<![Uu]sers\s)(?<!person\s)(?<!attacker\s)\b[Ww]ho\b(?!\sam\b)""",
    "use an imperative: Record, Make, Call": r'"""(?:Take\snote|Have|Let|Say)\b',
    "use return, send, report or log": r"\b[Tt](?:old|ells?|elling)\b",
    "repeat the noun": r"\b(?:that|those|the\sones?)\sof\s(?:which|whom|the|an?|its|all|other)\b",
    "keep the clause beside its noun": r",\s(?:which\shad\sto\b|(?:if\sany|as\swell|too)[.;])",
    "use the plain word": r"""
        \b(?:at\shand|anew|so\smany|in\sturns|on\s(?:its|their)\sway|stands?\sfor|goes\sby|
        gives?\sway|seen?\sto\sit|tak(?:e|en)\sup)\b""",
}
PATTERNS = {cure: re.compile(shape, re.VERBOSE) for cure, shape in SHAPES.items()}
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


class Place(NamedTuple):
    """A shape at a line of a file."""

    line: int
    words: str
    cure: str


def passages(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield each docstring, comment or page, with its first line's number."""
    if name.endswith(".md"):
        yield 1, source
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    if name.endswith(".pxd"):
        return
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, "\n".join(lines[value.lineno - 1 : value.end_lineno])


def places(name: str, source: str) -> list[Place]:
    """Return the shapes in the text of a file named `name`, by line."""
    found = []
    for first, passage in passages(name, source):
        text = CODE.sub(lambda match: "`" + "\n" * match[0].count("\n") + "`", passage)
        text = re.sub(r"(?<=\n) +", "", text)
        for cure, pattern in PATTERNS.items():
            for match in pattern.finditer(text):
                line = first + text.count("\n", 0, match.start())
                found.append(Place(line, " ".join(match[0].split()), cure))
    return sorted(found)


def by_folder(root: Path, names: list[str]) -> dict[str, list[str]]:
    """Return a line for each place in the files `names` of `root`, by top-level folder."""
    found: dict[str, list[str]] = {folder: [] for folder in LIMITS}
    for name in names:
        folder = name.partition("/")[0] if "/" in name else "."
        for place in places(name, (root / name).read_text(encoding="utf-8")):
            report = f"{name}:{place.line}: {place.words!r}: {place.cure}"
            found.setdefault(folder, []).append(report)
    return found


def main(root: Path, *, lists_all: bool) -> int:
    """Print the folders above their limits; return 1 if there are some, else 0."""
    listed = ["git", "ls-files", "*.py", "*.pxd", "*.md"]
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout
    failed = 0
    for folder, reports in by_folder(root, names.split()).items():
        limit = LIMITS.get(folder, 0)
        if lists_all or len(reports) > limit:
            print(*reports, f"{folder}: {len(reports)} places, at most {limit} allowed", sep="\n")
        failed |= len(reports) > limit
    return failed


if __name__ == "__main__":
    sys.exit(main(ROOT, lists_all="--all" in sys.argv[1:]))
