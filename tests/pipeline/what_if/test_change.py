"""Proposed changes are read strictly, without Spark."""

import re

import pytest

from midge.pipeline.subject_rewriting import Rewrite
from midge.pipeline.what_if.change import (
    Added,
    Change,
    Mapped,
    PlanError,
    Removed,
    Split,
    glob_pattern,
    load_change,
    parse_change,
)


def test_a_file_says_everything(tmp_path):
    path = tmp_path / "change.toml"
    path.write_text(
        """
        servers = 3
        [[add]]
        subject = "fleet.>"
        queue = "q"
        copies = 2
        [[remove]]
        client = "wall-*"
        [[split]]
        clients = "van-*"
        into = "VANS"
        shared = ["fleet.*.pos"]
        [[mapping]]
        from = "a.*"
        to = "b.$1"
        """
    )
    assert load_change(path) == Change(
        3,
        (Added("fleet.>", queue="q", copies=2),),
        (Removed("wall-*"),),
        (Split("van-*", "VANS", shared=("fleet.*.pos",)),),
        (Mapped(Rewrite("a.*", "b.$1")),),
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"servers": 0}, "servers: expected a number from 1 up, got 0"),
        ({"server": 2}, "server: unknown key, did you mean 'servers'"),
        ({"add": [{}]}, r"add\[0\].subject: is missing"),
        ({"add": [{"subject": "a..b"}]}, r"add\[0\].subject: expected a subject, got 'a..b'"),
        ({"add": [{"subject": "a", "copies": "2"}]}, r"add\[0\].copies: expected a number"),
        ({"add": {"subject": "a"}}, r"add: expected tables \[\[add\]\]"),
        ({"remove": [{}]}, r"remove\[0\]: expected client, subject or account"),
        (
            {"remove": [{"clients": "x"}]},
            r"remove\[0\].clients: unknown key, did you mean 'client'",
        ),
        ({"split": [{"clients": "x"}]}, r"split\[0\].into: is missing"),
        (
            {"split": [{"clients": "x", "into": "B", "shared": ["."]}]},
            r"split\[0\].shared: expected",
        ),
        (
            {"mapping": [{"from": "a", "to": "b.$1"}]},
            r"mapping\[0\]: rewrite: the source of '\$1' has 0",
        ),
        ({"mapping": [{"from": 7, "to": "b"}]}, r"mapping\[0\].from: expected text, got 7"),
    ],
)
def test_what_has_no_meaning_is_named(document, message):
    with pytest.raises(PlanError, match=message):
        parse_change(document)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(PlanError, match=r"missing\.toml"):
        load_change(tmp_path / "missing.toml")


def test_globs_fit_whole_names():
    assert re.search(glob_pattern("van-*"), "van-7")
    assert not re.search(glob_pattern("van-*"), "caravan-7")
    assert not re.search(glob_pattern("van-?"), "van-77")
