"""Variables, includes, and the bounds that keep a hostile file from hurting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from midge.server.config.nats_conf import parser
from midge.server.config.nats_conf.parser import INCLUDE_DEPTH_MAX, ConfNode, ConfSource, parse_file
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def plain(node: ConfNode) -> Any:
    if isinstance(node.value, dict):
        return {name: plain(entry) for name, entry in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


class Files:
    """A directory of configuration files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}

    def write(self, name: str, text: str) -> Path:
        file = self.directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def parse(self, text: str) -> dict[str, Any]:
        file = self.write("main.conf", text)
        entries = parse_file(str(file), ConfSource(self.environment))
        return {name: plain(node) for name, node in entries.items()}

    def refuse(self, text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self.parse(text)
        return str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_maps_and_arrays(files: Files) -> None:
    text = 'a { b: [1, {c: "x"}, [true]], d = 2 }\ne: []\nf {}'
    assert files.parse(text) == {
        "a": {"b": [1, {"c": "x"}, [True]], "d": 2},
        "e": [],
        "f": {},
    }


def test_the_last_of_the_same_keys_wins(files: Files) -> None:
    assert files.parse("a: 1\na: 2") == {"a": 2}


def test_variables_look_inside_out(files: Files) -> None:
    text = "v: outer\nm { v: inner, x: $v, n { y: $v } }\nz: $v"
    parsed = files.parse(text)
    assert parsed["m"]["x"] == "inner"
    assert parsed["m"]["n"]["y"] == "inner"
    assert parsed["z"] == "outer"


def test_variables_may_be_maps_and_stand_in_arrays(files: Files) -> None:
    assert files.parse("p: {allow: x}\nl: [$p, $p]")["l"] == [{"allow": "x"}] * 2


def test_a_used_variable_is_marked(files: Files) -> None:
    file = files.write("main.conf", "v: 1\nw: 2\nx: $v")
    entries = parse_file(str(file), ConfSource({}))
    assert [entries[name].is_used for name in ("v", "w", "x")] == [True, False, False]


def test_unknown_and_later_variables(files: Files) -> None:
    assert files.refuse("a: $b\nb: 1") == "variable reference for 'b' on line 1 can not be found"
    assert files.refuse("a: 1\n\nc: $d") == "variable reference for 'd' on line 3 can not be found"


def test_environment_text_is_a_value(files: Files) -> None:
    files.environment = {"N": "12", "T": '"12"', "M": "{a: [1, $N]}", "E": ""}
    parsed = files.parse("n: $N\nt: $T\nm: $M\ne: $E")
    assert parsed == {"n": 12, "t": "12", "m": {"a": [1, 12]}, "e": ""}


def test_environment_cycles_end(files: Files) -> None:
    files.environment = {"A": "$B", "B": "$A"}
    assert files.refuse("x: $A").endswith("variable reference cycle for 'A'")
    files.environment = {f"V{n}": f"$V{n + 1}" for n in range(10_000)}
    assert "variable reference cycle" in files.refuse("x: $V0")


def test_bcrypt_is_no_variable(files: Files) -> None:
    assert files.parse("p: $2a$11$abc./") == {"p": "$2a$11$abc./"}


def test_include_is_relative_to_its_file_and_merges(files: Files) -> None:
    files.write("sub/one.conf", "include two.conf\nb: 1\n")
    files.write("sub/two.conf", "c: 2\n")
    assert files.parse("a: 0\nb: 0\ninclude sub/one.conf\n") == {"a": 0, "b": 1, "c": 2}


def test_include_within_a_map(files: Files) -> None:
    files.write("users.conf", "users: [x]")
    assert files.parse("auth { include 'users.conf', y: 1 }") == {"auth": {"users": ["x"], "y": 1}}


def test_included_values_keep_their_place(files: Files) -> None:
    inner = files.write("inner.conf", "\n b: 1")
    main = files.write("main.conf", "include inner.conf")
    assert parse_file(str(main), ConfSource({}))["b"].where == f"{inner}:2:2"


def test_include_cycles_end(files: Files) -> None:
    files.write("one.conf", "include main.conf")
    text = files.refuse("include one.conf")
    assert text.endswith("main.conf includes itself")
    assert text.startswith("error parsing include file 'one.conf', ")


def test_long_chains_of_includes_end(files: Files) -> None:
    for number in range(INCLUDE_DEPTH_MAX + 1):
        files.write(f"f{number}.conf", f"include f{number + 1}.conf")
    assert f"more than {INCLUDE_DEPTH_MAX} deep" in files.refuse("include f0.conf")


def test_includes_that_multiply_end(files: Files) -> None:
    files.write("f0.conf", "x: 1")
    for number in range(1, 20):
        files.write(f"f{number}.conf", f"include f{number - 1}.conf\n" * 2)
    assert "at most 1000 files" in files.refuse("include f19.conf")


def test_all_files_together_are_bounded(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "FILE_SIZE_MAX_BYTES", 1000)
    files.write("one.conf", "x: 1\n" * 100)
    assert "MiB with all includes" in files.refuse("include one.conf\ninclude one.conf\n" * 2)


def test_missing_include(files: Files) -> None:
    text = files.refuse("include none.conf")
    assert text.startswith("error parsing include file 'none.conf', open ")
    assert text.endswith("none.conf: no such file or directory")


def test_huge_file(files: Files) -> None:
    file = files.directory / "huge.conf"
    with file.open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(ConfigError, match="expected at most 16 MiB"):
        parse_file(str(file), ConfSource({}))
