"""Every script of the corpus has the same outcome on midge as on a real nats-server 2.15.1.

`MIDGE_SERVER_CMD` names another server to compare; naming nats-server itself shows that the
corpus is deterministic.
"""

from __future__ import annotations

from collections import Counter

import pytest

from . import corpus
from .pair import NAMES, ServerPair
from .report import mismatch
from .runner import Splitter, byte_by_byte, whole
from .script import Script

SCRIPTS = sorted(corpus.load(), key=lambda each: each.config.name)
SPLITS: dict[str, Splitter] = {"whole": whole, "byte-by-byte": byte_by_byte}

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("servers", "script"),
    [pytest.param(each.config, each, id=each.name) for each in SCRIPTS],
    indirect=["servers"],
)
async def test_same_outcome(servers: ServerPair, script: Script, split: str) -> None:
    expected = await servers.expected(script)
    assert not [r for stream in expected.values() for r in stream if b"in time" in r.frame], (
        f"{script.name}: nats-server left the script waiting: {expected}"
    )
    actual = await servers.actual(script, SPLITS[split])
    report = mismatch(script, expected, actual, NAMES, f"sent {split}")
    assert report is None, report


def test_names_are_unique() -> None:
    names = Counter(each.name for each in SCRIPTS)
    assert [name for name, count in names.items() if count > 1] == []


def test_corpus_is_complete() -> None:
    assert len(SCRIPTS) >= 300
