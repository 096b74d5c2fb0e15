"""Line numbers of keys in TOML texts."""

from __future__ import annotations

import tomllib

import pytest

from midge.server.config.from_toml import KeyLines

TEXT = '''\
# comment = 1
name = "a"   # [not.a.table]

[table]
x = [ 1, # ]
  2 ]
"quoted.key" = """
[fake]
y = 1
"""
'literal' = \'\'\'
[fake2]\'\'\'
dotted . key = { a = 1, b = "]\\"[" }
z = 'it"s'

[[list]]
a = 1
[list.sub]
b = 2
[[list.inner]]
c = 3
[[list]]
a = 4
[[list.inner]]
c = 5
[[list.inner]]
c = 6
[table.deep.er]
w = 1979-05-27T07:32:00Z
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 2),
        (("table",), 4),
        (("table", "x"), 5),
        (("table", "x", 1), 5),
        (("table", "quoted.key"), 7),
        (("table", "literal"), 11),
        (("table", "dotted", "key"), 13),
        (("table", "dotted", "key", "b"), 13),
        (("table", "z"), 14),
        (("list", 0), 16),
        (("list", 0, "a"), 17),
        (("list", 0, "sub", "b"), 19),
        (("list", 0, "inner", 0, "c"), 21),
        (("list", 1, "a"), 23),
        (("list", 1, "inner", 0, "c"), 25),
        (("list", 1, "inner", 1, "c"), 27),
        (("list", 1, "inner", 1, "missing"), 26),
        (("table", "deep", "er", "w"), 29),
        (("nothing",), None),
        (("fake", "y"), None),
    ],
)
def test_line_of(path: tuple[str | int, ...], line: int | None) -> None:
    tomllib.loads(TEXT)
    assert KeyLines(TEXT).line_of(path) == line


def test_empty_text() -> None:
    assert KeyLines("").line_of(("x",)) is None


def test_no_final_line_end() -> None:
    assert KeyLines("\n\nx = 1").line_of(("x",)) == 3
