"""Every public name, flag, setting, event, metric and page is listed, and the lists are current."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

import midge
from tests.unit.midge.surfaces import lists, pages, python_names, settings, sources

if TYPE_CHECKING:
    from pathlib import Path

HOW = "gone is what users may rely on; `python -m tests.unit.midge.surfaces` lists what is new"


@pytest.fixture(scope="module")
def collected() -> dict[str, set[str]]:
    return lists.collect()


@pytest.mark.parametrize("name", [name for name in lists.NAMES if name != "documented_paths"])
def test_surface_is_as_listed(collected: dict[str, set[str]], name: str) -> None:
    assert lists.differences(name, collected[name]) == [], HOW


def test_documented_paths_are_listed(collected: dict[str, set[str]]) -> None:
    assert collected["documented_paths"] <= lists.read("documented_paths"), HOW


@pytest.mark.parametrize("path", sorted(lists.read("documented_paths")))
def test_documented_path_can_be_imported(path: str) -> None:
    assert sources.resolves(path) or importlib.util.find_spec(path.replace(":", "."))


@pytest.mark.parametrize("path", ["midge:nothing", "midge.nowhere:Server", "midge:protocol"])
def test_what_is_no_name_is_noticed(path: str) -> None:
    assert not sources.resolves(path)


@pytest.mark.parametrize("name", [*lists.NAMES, "distributed"])
def test_list_is_sorted_and_without_repetition(name: str) -> None:
    lines = (lists.FOLDER / f"{name}.txt").read_text().splitlines()
    assert lines == sorted(set(lines))


def test_differences_say_what_is_gone_and_what_is_new(tmp_path: Path) -> None:
    lists.write("x", ["b", "a"], tmp_path)
    assert lists.differences("x", {"b", "c"}, tmp_path) == ["- a", "+ c"]
    assert lists.differences("x", {"a", "b"}, tmp_path) == []


def test_update_adds_and_takes_out_only_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists.write("x", ["a", "b"], tmp_path)
    assert lists.main([], lambda: {"x": {"b", "c"}}, tmp_path) == 1
    assert lists.read("x", tmp_path) == {"a", "b", "c"}
    assert capsys.readouterr().out == "x: kept, though the tree has it no more: a\n"
    assert lists.main(["--drop"], lambda: {"x": {"b", "c"}}, tmp_path) == 0
    assert lists.read("x", tmp_path) == {"b", "c"}


def test_class_is_described_with_its_members_and_without_annotations() -> None:
    lines = set(python_names.describe("C", midge.ThreadedServer))
    assert "C: class, object" in lines
    assert "C.client_url(self, user=None)" in lines
    assert "C.url: property" in lines
    assert not [line for line in lines if "->" in line or "C._" in line.replace("__", "")]


def test_keys_of_a_page_are_paths() -> None:
    page = {"a": {"b": 1}, "c": [{"d": []}, {"e": 2}], "http_req_stats": {"/": 1}}
    found = ["a", "a.b", "c", "c[].d", "c[].e", "http_req_stats"]
    assert sorted(pages.keys(page)) == found


def test_metrics_are_told_with_their_labels() -> None:
    text = '# HELP m x\n# TYPE m counter\nm 1.0\nm{limit="payload",account="A"} 2.0\n'
    assert list(pages.metrics(text)) == ["m: counter", 'm{limit="payload", account}']


def test_settings_in_tables_of_lists_are_listed() -> None:
    found = set(settings.settings())
    assert "listen.port = 4222" in found
    assert "[User] user = ''" in found


def test_distributed_files_leave_out_modules_and_name_folders() -> None:
    names = ["README.md", "midge/cli.py", "tests/unit/a/b.py", "docs/x.md", "midge.egg-info/y"]
    assert list(sources.distributed_files(names)) == ["README.md", "tests/unit/", "docs/x.md"]
