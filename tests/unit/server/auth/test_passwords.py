"""Passwords: plain and bcrypt, of any length and content."""

from __future__ import annotations

import asyncio
import threading

import bcrypt
import pytest

from midge.server.auth import passwords
from midge.server.auth.passwords import PasswordChecker, is_bcrypt, is_hash_of, is_same_text

HASH = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()


def test_a_hash_is_told_from_a_password() -> None:
    assert is_bcrypt(HASH)
    assert is_bcrypt("$2a$" + HASH[4:])
    assert not is_bcrypt("s3cret")
    assert not is_bcrypt("$2x")
    assert not is_bcrypt(HASH[:-1])


@pytest.mark.parametrize("offered", ["", "S3cret", "s3cret ", "\ud800", "é" * 1000])
def test_wrong_text_is_refused(offered: str) -> None:
    assert not is_same_text("s3cret", offered)
    assert not is_hash_of(HASH, offered)


def test_right_text_is_taken() -> None:
    assert is_same_text("pässword", "pässword")
    assert is_hash_of(HASH, "s3cret")


def test_more_than_bcrypt_looks_at_is_cut() -> None:
    stored = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert is_hash_of(stored, "x" * 100)
    assert not is_hash_of(stored, "x" * 71)


def test_a_broken_hash_matches_nothing() -> None:
    assert not is_hash_of("$2b$99$" + "." * 53, "x")


async def test_hashes_are_checked_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    running = threading.Semaphore(0)

    def slow(stored: str, offered: str) -> bool:
        running.release()
        return gate.wait(60) and stored == offered

    monkeypatch.setattr(passwords, "is_hash_of", slow)
    checker = PasswordChecker()
    checks = [asyncio.create_task(checker.is_hash_of("a", "a")) for _ in range(10)]
    for _ in range(2):
        await asyncio.to_thread(running.acquire, timeout=30)
    assert not running.acquire(blocking=False), "no more than two at a time"
    gate.set()
    assert await asyncio.gather(*checks) == [True] * 10
    checker.close()
