"""A fresh server's monitoring and console pages, their keys, and its metrics."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import socket
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.support.processes import Server
from tests.unit.midge.surfaces.sources import module_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

DETAILS = "?subs=detail&auth=true&acc=$G"
"""Query that fills every part of a page that can be empty; pages ignore others' arguments."""

BY_VALUE = {"http_req_stats", "metadata"}
"""Objects whose keys are values: pages by path, what a user wrote."""

FIXED_LABELS = ("limit", "reason")
"""Labels of metrics whose values are words of midge, and not names that users gave."""


FLAGS = ("-m", "-1", "--websocket-port", "-1", "--websocket-no-tls", "--monitoring-console-enabled")
"""Flags that turn every page on."""


def pages_and_metrics() -> tuple[list[str], list[str]]:
    """Return what a fresh server with one client says on its pages, and what it counts."""
    command = [sys.executable, "-m", "midge.server"]
    with Server(command, flags=FLAGS) as server, client(server.address()):
        base = "http://{}:{}".format(*server.address("monitoring"))
        found = [line for path in paths() for line in page(base, path)]
        _, _, body = fetch(f"{base}/metrics")
    return found, list(metrics(body.decode()))


def paths() -> list[str]:
    """Return every path that the sources of the monitoring name."""
    found = {"/console"}
    for source, tree in module_sources("server"):
        if not {"monitoring", "console"} & set(source.parts):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(text)) if re.fullmatch(r"(/[a-z]*)+", text):
                    found.add(text)
    return sorted(found)


def page(base: str, path: str) -> Iterator[str]:
    """Yield what there is to say of one page; nothing when there is none."""
    status, kind, body = fetch(f"{base}{path}{DETAILS}")
    if status == 404 and body == b"404 page not found\n":
        return
    yield f"{path}: {status} {kind}"
    if kind == "application/json":
        yield from sorted({f"{path} {key}" for key in keys(json.loads(body))})


def keys(value: Any, above: str = "") -> Iterator[str]:
    """Yield the paths of all keys; a list's elements stand under `[]`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{above}{name}"
            if name not in BY_VALUE:
                yield from keys(inner, f"{above}{name}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{above.removesuffix('.')}[].")


def metrics(text: str) -> Iterator[str]:
    """Yield each metric with its type, its labels, and the values of labels that are fixed."""
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            yield line.removeprefix("# TYPE ").replace(" ", ": ")
        elif not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            shown = [f'{k}="{v}"' if k in FIXED_LABELS else k for k, v in named.items()]
            if shown:
                yield f"{name}{{{', '.join(shown)}}}"


def fetch(url: str) -> tuple[int, str, bytes]:
    """Return status, media type and body of a page, refused or not."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read()


@contextlib.contextmanager
def client(address: tuple[str, int]) -> Iterator[None]:
    """Keep a client with one subscription, so that the pages have something to show."""
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(
            b'CONNECT {"verbose":false,"name":"n","lang":"python","version":"1"}\r\n'
            b"SUB surface.* queue 1\r\nPUB surface.a 2\r\nhi\r\nPING\r\n"
        )
        received = b""
        while b"PONG\r\n" not in received:
            received += connection.recv(4096)
        yield
