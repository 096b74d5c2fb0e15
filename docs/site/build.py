"""Build the site: `python docs/site/build.py OUT`, in an environment with requirements.txt.

It copies the pages, so that their links work as they do in the checkout, and the public Python
modules, so that `autoapi` documents each name where users import it from. Warnings are errors.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent.parent
PACKAGES = (
    *("midge", "midge.server.auth", "midge.server.interceptors", "midge.protocol"),
    *("midge.sublist", "midge.testing", "midge.testing.strategies", "midge.tables"),
)
MERMAID = "mermaid@12.3.0"

SECTIONS = {
    "Decide": ("drop-in", "compatibility", "bench/README", "bench/RESULTS", "bench/RECOVERY"),
    "Begin": ("getting-started", "how-to"),
    "Tutorials": (
        *("tutorials/first-messages", "tutorials/work-queue", "tutorials/key-value"),
        *("tutorials/fastapi-tests", "tutorials/spark-table", "tutorials/edge-device"),
    ),
    "Coming from": ("coming-from/*",),
    "Run": (
        *("operations", "configuration", "security", "security-examples", "monitoring"),
        *("scaling", "clusters", "leafnodes", "websocket", "command-line", "client", "bench"),
    ),
    "Streams": ("jetstream", "consumers", "store-format"),
    "In your program": (
        *("embedding", "interceptors", "testing", "testing-streams", "api-by-example"),
        "examples/*",
    ),
    "Data": ("recorder", "record-format", "pipeline", "gold-queries", "pipeline-source", "tables"),
    "Inside": ("architecture", "server", "protocol", "subscriptions", "building", "bench/MICRO"),
    "Reference": ("api/*", "names"),
    "Project": ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY"),
}
"""The pages of the side bar; pages that no section names are an error of the build."""

LISTS = (
    "commands",
    "settings",
    "log_events",
    "metrics",
    "pages",
    "pytest",
    "installed",
    "keywords",
)


def main(out: Path) -> int:
    """Build the site into `out`; return the exit status."""
    work = out.parent / "site-source"
    shutil.rmtree(work, ignore_errors=True)
    source, api = work / "pages", work / "api" / "midge"
    pages = copy_pages(source)
    copy_modules(api)
    (source / "names.md").write_text(lists_of_names(), encoding="utf-8")
    add_side_bar(source, pages)
    add_assets(work / "static", work)
    environment = os.environ | {
        "MIDGE_API_SOURCES": str(api),
        "MIDGE_STATIC": str(work / "static"),
        "PYTHONPATH": str(api.parent),  # where autoapi looks for base classes
    }
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-c", str(SITE)]
    done = subprocess.run([*command, str(source), str(out)], env=environment, check=False)  # noqa: S603
    if done.returncode:
        return done.returncode
    (out / "llms.txt").write_text(llms(source), encoding="utf-8")
    broken = list(broken_links(out))
    sys.stderr.writelines(f"{one}\n" for one in broken)
    return 1 if broken else 0


# Pages.


def copy_pages(source: Path) -> list[str]:
    """Copy the pages, those of docs/ to the top; return their names, without suffix."""
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("site", "*.pyc"))
    for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY"):
        shutil.copy(ROOT / f"{name}.md", source)
    for name in ("LICENSE", "config.example.toml"):
        shutil.copy(ROOT / name, source)
    for folder in ("bench", "examples", "deploy"):
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    found = []
    for page in sorted(source.rglob("*.md")):
        place = page.relative_to(source)
        page.write_text(moved_links(page.read_text(encoding="utf-8"), place), encoding="utf-8")
        found.append(place.with_suffix("").as_posix())
    return found


def moved_links(text: str, page: Path) -> str:
    """Adapt the links of a page to the place of the pages of docs/."""
    folder = page.parts[0] if len(page.parts) > 1 else ""
    if folder in {"bench", "examples"}:
        return text.replace("](../docs/", "](../").replace("](../../docs/", "](../../")
    if page.stem in {"README", "CHANGELOG", "CONTRIBUTING", "SECURITY"}:
        return text.replace("](docs/", "](").replace('src="docs/', 'src="')
    if folder:
        return text.replace("](../../", "](../")
    return text.replace("](../", "](")


def add_side_bar(source: Path, pages: list[str]) -> None:
    """Add the tables of contents to the index page. Raises: SystemExit for a page without one."""
    blocks, left = [], {*pages, "names"} - {"index"}
    for title, patterns in SECTIONS.items():
        names = [name for pattern in patterns for name in expanded(pattern, [*pages, "names"])]
        left.difference_update(names)
        listed = "\n".join(names)
        blocks.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n")
    if left:
        raise SystemExit(f"docs/site/build.py: no section has {', '.join(sorted(left))}")
    index = source / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + "\n" + "\n".join(blocks), encoding="utf-8")


def expanded(pattern: str, pages: list[str]) -> list[str]:
    """Return the pages that match a pattern of a section."""
    if pattern == "api/*":
        return ["api/" + package.replace(".", "/") + "/index" for package in PACKAGES]
    if pattern.endswith("/*"):
        return [page for page in pages if page.startswith(pattern[:-1])]
    return [pattern] if pattern in pages else []


def lists_of_names() -> str:
    """Return a page of the names that users rely on."""
    folder = ROOT / "tests" / "unit" / "midge" / "surfaces"
    parts = [
        "# Lists of names\n\nA release changes none of these without saying so in its notes.\n"
    ]
    for name in LISTS:
        title = name.replace("_", " ").capitalize()
        body = (folder / f"{name}.txt").read_text(encoding="utf-8")
        parts.append(f"## {title}\n\n~~~~text\n{body}~~~~\n")
    return "\n".join(parts)


def llms(source: Path) -> str:
    """Return llms.txt: each page with its title and first sentence."""
    lines = ["# midge", "", "> A NATS server in Python, alone or within a program or a test.", ""]
    for title, patterns in SECTIONS.items():
        lines += [f"## {title}", ""]
        pages = [
            page.relative_to(source).with_suffix("").as_posix() for page in source.rglob("*.md")
        ]
        for name in [one for pattern in patterns for one in expanded(pattern, sorted(pages))]:
            page = source / f"{name}.md"
            heading, first = (
                first_words(page) if page.exists() else (name.split("/", 1)[1], "API reference")
            )
            lines.append(f"- [{heading}]({name}.html): {first}")
        lines.append("")
    return "\n".join(lines)


def first_words(page: Path) -> tuple[str, str]:
    """Return the title and the first sentence of a page."""
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    body = re.search(
        r"^[A-Z`*\[][^\n]*(?:\n[^\n#`|<-][^\n]*)*", text.partition("\n\n")[2], re.MULTILINE
    )
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(body[0].split()) if body else "")
    sentence = re.match(r".*?[.:](?= |$)", plain)
    return title[1] if title else page.stem, sentence[0] if sentence else plain


# Modules.


def copy_modules(target: Path) -> None:
    """Copy the public modules, and those that their names and base classes come from."""
    ahead = list(PACKAGES)
    done: set[str] = set()
    while ahead:
        module = ahead.pop()
        path = path_of(module)
        if module in done or path is None:
            continue
        done.add(module)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree = with_imports(tree) if module in PACKAGES else with_bases(tree)
        ahead += sorted(homes(tree))
        copy = place(target, module)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(ast.unparse(tree), encoding="utf-8")
    for folder in [target, *(one for one in target.rglob("*") if one.is_dir())]:
        (folder / "__init__.py").touch()


def path_of(module: str) -> Path | None:
    """Return the file of a module of midge, None for others."""
    if not module.startswith("midge"):
        return None
    base = ROOT.joinpath(*module.split("."))
    found = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in found if path.exists()), None)


def place(target: Path, module: str) -> Path:
    """Return where the copy of a module goes."""
    path = path_of(module)
    assert path is not None
    parts = module.split(".")[1:]
    if path.name == "__init__.py":
        return target.joinpath(*parts, "__init__.py")
    return target.joinpath(*parts).with_suffix(".py")


def with_imports(tree: ast.Module) -> ast.Module:
    """Make the imports for type checkers plain ones, and drop what imports on first use."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            body += statement.body
        elif not (isinstance(statement, ast.FunctionDef) and statement.name.startswith("__")):
            body.append(statement)
    return ast.Module(body, type_ignores=[])


def with_bases(tree: ast.Module) -> ast.Module:
    """Keep only the imports from midge that base classes need, so that none goes in a circle."""
    wanted = {
        ast.unparse(base)
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        for base in one.bases
    }
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("midge"):
            statement.names = [one for one in statement.names if one.name in wanted]
            if not statement.names:
                continue
        body.append(statement)
    return ast.Module(body, type_ignores=[])


def homes(tree: ast.Module) -> set[str]:
    """Return the modules of midge that a module imports from."""
    found = set()
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("midge"):
            found.add(statement.module or "")
            found.update(f"{statement.module}.{one.name}" for one in statement.names)
    return found


# Links.


class Links(HTMLParser):
    """The links of one page, the files that it loads, and the names that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        found = {name: value for name, value in attrs if value}
        self.names.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif "src" in found or tag == "link":
            self.loaded.append(found.get("src") or found.get("href", ""))


def broken_links(out: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for each file from another server."""
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in out.rglob("*.html")}
    for page, found in pages.items():
        name = page.relative_to(out)
        for link in found.loaded:
            if "//" in link:
                yield f"{name}: loads {link} from another server"
        for link in [*found.links, *found.loaded]:
            target, _, anchor = unquote(link).partition("#")
            if "//" in link or link.startswith(("mailto:", "data:")):
                continue
            path = (page.parent / target.partition("?")[0]).resolve() if target else page
            if not path.exists():
                yield f"{name}: {link} leads nowhere"
            elif anchor and path in pages and anchor not in pages[path].names:
                yield f"{name}: {link} names no place"


# Assets.


def add_assets(static: Path, work: Path) -> None:
    """Add the style and the scripts; without npm the drawings stay text."""
    static.mkdir(exist_ok=True)
    for name in ("site.css", "drawings.js"):
        shutil.copy(SITE / name, static)
    library = static / "mermaid.min.js"
    library.write_text("")
    kept = work.parent / "mermaid.min.js"
    if not kept.exists() and shutil.which("npm"):
        pack = ["npm", "pack", "--silent", MERMAID]
        if subprocess.run(pack, cwd=work, check=False, stdout=subprocess.DEVNULL).returncode == 0:  # noqa: S603
            archive = next(work.glob("mermaid-*.tgz"))
            shutil.unpack_archive(archive, work / "mermaid", "gztar", filter="data")
            shutil.copy(work / "mermaid" / "package" / "dist" / "mermaid.min.js", kept)
    if kept.exists():
        shutil.copy(kept, library)
    else:
        sys.stderr.write("docs/site/build.py: without npm the drawings stay text\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
