"""Imports go one way: testing -> server -> core and pipeline -> client -> core.

The core is sublist, protocol and jetstream.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

MAY_IMPORT = {
    "protocol": set[str](),
    "sublist": set[str](),
    "jetstream": {"protocol", "sublist"},
    "server": {"protocol", "sublist", "jetstream"},
    "client": {"protocol", "sublist", "jetstream"},
    "pipeline": {"client", "protocol", "sublist", "jetstream"},
    "testing": {"protocol", "server", "sublist", "jetstream"},
}

# The core takes time, bytes and randomness as arguments, and reports through return values.
SHELL_ONLY = {"asyncio", "logging", "selectors", "socket", "ssl", "structlog", "time", "uvloop"}

# What a daemon without passwords, certificates and pages does without, and is up the sooner for it.
LATE = {"aiohttp", "bcrypt", "cryptography", "prometheus_client", "pyarrow", "rich", "structlog"}
LATE |= {"websockets"}

LATE_MODULES = {
    "midge.server.auth.callout",
    "midge.server.clients.protocol_trace",
    "midge.server.interceptors.interception",
    "midge.server.monitoring.accounts",
    "midge.server.monitoring.connz",
    "midge.server.monitoring.http",
    "midge.server.monitoring.varz",
    "midge.server.system_account.system_requests",
}
"""Our own modules that a start in plain configuration does without; there are more."""

CIMPORT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+cimport\s+(\([^)]*\)|[^\n#]*)|cimport\s+([\w.]+))", re.MULTILINE
)


def python_imports(source: str, package: str) -> set[str]:
    """Return the absolute names of all that `source`, a module of `package`, imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = [*(above if node.level else []), *([node.module] if node.module else [])]
            found.update(".".join([*parts, alias.name]) for alias in node.names)
    return found


def cython_imports(source: str) -> set[str]:
    """Return the names of everything that a `.pxd` cimports, modules or their members."""
    found = set()
    for module, names, whole in CIMPORT.findall(source):
        if whole:
            found.add(whole)
        found.update(f"{module}.{name}" for name in re.findall(r"(\w+)(?:\s+as\s+\w+)?", names))
    return found


def forbidden(folder: str, names: set[str]) -> set[str]:
    """Return those of `names` that a module of `folder` must not import."""
    wrong = set()
    for name in names:
        top, *below = name.split(".")
        if top == "midge" and below and below[0] in MAY_IMPORT:
            if below[0] not in MAY_IMPORT[folder] | {folder}:
                wrong.add(name)
        elif folder in {"protocol", "sublist", "jetstream"} and top in SHELL_ONLY:
            wrong.add(name)
    return wrong


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_folder_imports_only_what_lies_below_it(root: Path, folder: str) -> None:
    wrong = {}
    for path in sorted((root / "midge" / folder).rglob("*.p*")):
        if path.suffix not in {".py", ".pxd"}:
            continue
        module = path.relative_to(root)
        package = ".".join(module.parent.parts)
        source = path.read_text()
        names = cython_imports(source) if path.suffix == ".pxd" else python_imports(source, package)
        if found := forbidden(folder, names):
            wrong[str(module)] = sorted(found)
    assert wrong == {}


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("protocol", "import midge.server.listeners.tcp"),
        ("protocol", "from midge.sublist import SubList"),
        ("protocol", "from midge import server"),
        ("protocol", "from ..server import cli"),
        ("sublist", "def late():\n    import asyncio"),
        ("protocol", "import midge.jetstream.environment.clock"),
        ("jetstream", "import time"),
        ("jetstream", "from midge.server import clock"),
        ("server", "from midge.pipeline.source import read"),
        ("pipeline", "from midge.server import options"),
        ("client", "from midge.pipeline.errors import PublishError"),
        ("client", "import midge.server.config.options"),
        ("server", "from midge.client.client import NatsClient"),
        ("testing", "import midge.pipeline"),
    ],
)
def test_wrong_direction_is_found(folder: str, source: str) -> None:
    assert forbidden(folder, python_imports(source, f"midge.{folder}"))


ROOMS = (
    ("clock", "errors", "histogram"),
    ("config",),
    ("options",),
    ("log",),
    ("routing",),
    ("auth",),
    ("accounts",),
    ("channels",),
    ("clients",),
    ("internal",),
    ("interceptors",),
    ("broker",),
    ("listeners",),
    ("peers",),
    ("recorder", "monitoring", "jetstream", "workers", "tables"),
    ("system_account", "preflight"),
    ("server",),
    ("embedded",),
    ("process", "store_commands"),
    ("__main__",),
)
"""The rooms of the server, from the ground up: each imports from those before it, none after it.

Rooms in one line may import each other only one way round, which the search for cycles holds.
"""

JETSTREAM_ROOMS = (
    ("errors", "headers", "json", "transform"),
    ("config",),
    ("store",),
    ("environment",),
    ("consumer",),
    ("stream",),
    ("archive",),
    ("account",),
    ("api",),
)
"""The rooms of JetStream, likewise."""

CLIENT_ROOMS = (
    ("errors",),
    ("headers", "options"),
    ("client",),
    ("jetstream",),
    ("commands",),
    ("benchmark",),
)
"""The modules of the client, and its commands, likewise."""

PIPELINE_ROOMS = (
    ("errors",),
    ("delta", "matching", "offsets", "records", "session", "subject_rewriting"),
    ("match",),
    ("fleet", "lake", "spark_source"),
    ("source",),
    ("replay", "report", "tables", "what_if"),
    ("commands",),
)
"""The rooms of the pipeline."""


def floors(rooms: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    """Return the floor of each room."""
    return {room: floor for floor, line in enumerate(rooms) for room in line}


FLOORS = {
    "server": floors(ROOMS),
    "jetstream": floors(JETSTREAM_ROOMS),
    "client": floors(CLIENT_ROOMS),
    "pipeline": floors(PIPELINE_ROOMS),
}
MODULES_MAX = 8
"""So many modules may lie in such a folder itself; the others are in its rooms."""


def module_of(name: str, modules: set[str]) -> str | None:
    """Return the module that an imported name is, or is in; None when it is none of `modules`."""
    while name:
        if name in modules:
            return name
        name = name.rpartition(".")[0]
    return None


def import_edges(root: Path, *folders: str) -> set[tuple[str, str]]:
    """Return the imports within `folders`: top-level, deferred, type-only and C imports."""
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for folder in folders
        for path in (root / "midge" / folder).rglob("*.py")
    }
    modules = {name.removesuffix(".__init__") for name in paths}
    edges = set()
    for name, path in paths.items():
        names = python_imports(path.read_text(), name.rpartition(".")[0])
        if (header := path.with_suffix(".pxd")).exists():
            names |= cython_imports(header.read_text())
        found = {module_of(imported, modules) for imported in names}
        edges |= {(name.removesuffix(".__init__"), to) for to in found if to is not None}
    return {(user, used) for user, used in edges if user != used}


def floor_of(module: str) -> int:
    """Return the floor that a module of a folder with rooms is on."""
    _, folder, room, *_ = module.split(".")
    return FLOORS[folder][room]


def against_order(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the imports of a later room by an earlier one."""
    return {
        (user, used)
        for user, used in edges
        if user.count(".") > 1 < used.count(".") and floor_of(user) < floor_of(used)
    }


def cycles(edges: set[tuple[str, str]]) -> set[frozenset[str]]:
    """Return the groups of modules that reach each other by imports."""
    uses: dict[str, set[str]] = {}
    for user, used in edges:
        uses.setdefault(user, set()).add(used)
    reached: dict[str, set[str]] = {}
    for module in uses:
        seen: set[str] = set()
        ahead = [module]
        while ahead:
            new = uses.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        reached[module] = seen
    return {
        frozenset(other for other in seen if module in reached.get(other, set()))
        for module, seen in reached.items()
        if module in seen
    }


@pytest.fixture(scope="module")
def edges(root: Path) -> set[tuple[str, str]]:
    """All imports of our modules by each other."""
    return import_edges(root, ".", *MAY_IMPORT)


@pytest.mark.parametrize("folder", sorted(FLOORS))
def test_every_room_has_its_floor(root: Path, folder: str) -> None:
    path = root / "midge" / folder
    # A folder without sources is left of an earlier checkout.
    rooms = {
        room.stem
        for room in path.iterdir()
        if room.suffix == ".py" or (room.is_dir() and next(room.rglob("*.py"), None))
    }
    assert rooms - {"__init__", "__pycache__"} == set(FLOORS[folder])
    assert len([*path.glob("*.py")]) <= MODULES_MAX


@pytest.mark.parametrize("folder", sorted(FLOORS))
def test_rooms_import_downwards_only(edges: set[tuple[str, str]], folder: str) -> None:
    within = {
        (user, used)
        for user, used in edges
        if user.startswith(f"midge.{folder}.") and used.startswith(f"midge.{folder}.")
    }
    assert len(within) > 30
    assert against_order(within) == set()


def test_no_module_imports_itself_round_a_corner(edges: set[tuple[str, str]]) -> None:
    assert len(edges) > 2000
    assert [sorted(one) for one in cycles(edges)] == []


@pytest.mark.parametrize(
    ("user", "used"),
    [
        ("midge.server.routing.router", "midge.server.channels.channel"),
        ("midge.server.config.load", "midge.server.server"),
        ("midge.server.clients.flow", "midge.server.internal.internal_publisher"),
        ("midge.jetstream.consumer.push", "midge.jetstream.stream.stream_host"),
        ("midge.jetstream.archive.receiving", "midge.jetstream.api.call"),
        ("midge.pipeline.lake.gold", "midge.pipeline.report.page"),
        ("midge.client.client", "midge.client.commands.verbs"),
    ],
)
def test_an_import_against_the_order_is_found(user: str, used: str) -> None:
    assert against_order({(user, used)}) == {(user, used)}
    assert against_order({(used, user)}) == set()


def test_a_cycle_is_found() -> None:
    tail = {("a", "b"), ("d", "a")}
    assert cycles(tail) == set()
    assert cycles(tail | {("b", "c"), ("c", "a")}) == {frozenset("abc")}


def test_a_start_imports_nothing_that_it_can_do_without(root: Path) -> None:
    code = (
        "import sys, midge.server.process.commands, midge.server.process.daemon;"
        "import midge.server.server;"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    loaded = done.stdout.split()
    assert {name.partition(".")[0] for name in loaded} & LATE == set()
    assert LATE_MODULES & set(loaded) == set()
    rooms = {"midge.jetstream", "midge.server.peers", "midge.server.recorder"}
    assert rooms & {".".join(name.split(".")[:3]) for name in loaded} == set()


def test_pages_import_nothing_of_what_may_be_off(root: Path) -> None:
    code = "import sys, midge.server.monitoring.http; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert "midge.jetstream" not in loaded.stdout.split()


def test_wrong_direction_is_found_in_a_pxd() -> None:
    names = cython_imports(
        "from midge.server.clients.connection cimport Connection\ncimport cython\n"
    )
    assert names == {"midge.server.clients.connection.Connection", "cython"}
    assert forbidden("sublist", names) == {"midge.server.clients.connection.Connection"}
