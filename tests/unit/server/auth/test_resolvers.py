"""Resolvers: a name from the wire never leads out of the directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from midge.server.auth.claims import TOKEN_MAX_BYTES
from midge.server.auth.nkeys import KeyKind
from midge.server.auth.resolvers import DirectoryResolver, MemoryResolver
from tests.support.keys import KeyPair

KEY = KeyPair(KeyKind.ACCOUNT).public


def test_memory_knows_what_it_was_given() -> None:
    resolver = MemoryResolver({KEY: "token"})
    assert resolver.fetch(KEY) == "token"
    assert resolver.fetch("other") is None


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    resolver = DirectoryResolver(tmp_path, {KEY: "preloaded"})
    assert resolver.fetch(KEY) == "preloaded"
    file = tmp_path / f"{KEY}.jwt"
    file.write_text("one\n")
    assert resolver.fetch(KEY) == "one"
    file.write_text("two")
    assert resolver.fetch(KEY) == "two"


@pytest.mark.parametrize(
    "name",
    ["", ".", "../secret", "/etc/passwd", "secret", "A" * 56, f"../{KEY}", KEY + "\0"],
    ids=["empty", "dot", "up", "absolute", "relative", "no key", "key above", "key and NUL"],
)
def test_what_is_no_account_key_is_not_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.jwt").write_text("secret")
    inside = tmp_path / "accounts"
    inside.mkdir()
    assert DirectoryResolver(inside, {}).fetch(name) is None


def test_links_and_other_things_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "accounts"
    inside.mkdir()
    resolver = DirectoryResolver(inside, {})
    file = inside / f"{KEY}.jwt"
    file.symlink_to(tmp_path / "secret")
    assert resolver.fetch(KEY) is None
    file.unlink()
    file.mkdir()
    assert resolver.fetch(KEY) is None
    file.rmdir()
    os.mkfifo(file)
    assert resolver.fetch(KEY) is None


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.jwt").write_bytes(b"x" * (TOKEN_MAX_BYTES + 1))
    assert DirectoryResolver(tmp_path, {}).fetch(KEY) is None
