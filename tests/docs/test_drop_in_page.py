"""docs/drop-in.md lists every flag and key, and what it says of each is what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from midge.server import preflight as config
from midge.server.errors import ConfigError
from tests.docs import drop_in

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = [
    pytest.param(level, key, text, id=f"{level.name}-{key}")
    for level in drop_in.LEVELS
    for key, text in drop_in.refusals(level).items()
]


def test_the_lists_are_current() -> None:
    listed = drop_in.LISTS.search(drop_in.PAGE.read_text(encoding="utf-8"))
    assert listed is not None
    assert listed[0] == drop_in.document(), "bring up to date: python -m tests.docs.drop_in"


@pytest.mark.parametrize(("level", "key", "text"), REFUSED)
def test_a_refused_key_says_so(level: drop_in.Level, key: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    before, _, after = level.within.partition("…")
    file.write_text(f"{before}\n  {key}: x\n{after}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    assert f'{file}:2:3: field "{key}": {text}' in str(caught.value).splitlines()


def test_false_is_accepted_for_missing_switches_alone(tmp_path: Path) -> None:
    level = drop_in.LEVELS[0]
    switches = drop_in.missing_switches(level)
    file = tmp_path / "x.conf"
    file.write_text("".join(f"{key}: false\n" for key in sorted(switches)), encoding="utf-8")
    assert config.load(file).options == config.load(None).options
    others = sorted(drop_in.refusals(level).keys() - switches)
    file.write_text("".join(f"{key}: false\n" for key in others), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    assert [line.split('"')[1] for line in str(caught.value).splitlines()] == others
    assert set(others) == {"gateway", "mqtt"}, switches
