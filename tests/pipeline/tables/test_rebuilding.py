"""Other columns for a table: from the table itself, in one commit, nothing lost at any failure."""

import json
import subprocess
import sys
from functools import partial

import pytest

from midge import cli
from midge.client.errors import OptionError
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.table_handle import Source, TableHandle, create
from midge.tables import rebuild, scan

pytestmark = pytest.mark.timeout(60)
PAYLOADS = [
    b'{"n": 1, "x": 2.5, "t": "2026-01-31T12:00:00.5+01:00", "j": {"a": [1.50]}}',
    b'{"n": 2, "more": [1, 2], "s": "\\u00e9\\n"}',
    b'{"n": "three"}',
    b"",
    b'{"n": null}',
    b'{"n": 9007199254740993, "yes": true}',
]
WIDE = {"n": "int64", "x": "double", "t": "timestamp", "j": "json", "s": "string", "yes": "boolean"}


def make(url, columns, payloads=PAYLOADS, infer=False):
    decoder = Decoder(columns, infers=infer)
    table = create(url, decoder, Source("S", "then", infers=infer))
    seqs = list(range(1, len(payloads) + 1))
    headers = [b"NATS/1.0\r\nTrace: %d\r\n\r\n" % seq for seq in seqs]
    subjects = [b"a.%d" % seq for seq in seqs]
    columns = Columns(
        seqs, [seq * 1_000_000_000 for seq in seqs], subjects, list(payloads), headers
    )
    table.append(decoder.decode(columns), len(payloads))
    return url


def contents(url):
    rows = scan(url, None).to_table().to_pylist()
    bad = TableHandle(url).quarantined().to_pylist()
    for row in rows:
        row["_other"] = json.loads(row.get("_other") or "{}")
    for row in bad:  # blanks between keys and values are not kept
        row["payload"] = json.loads(row["payload"] or "{}")
        del row["headers"]  # a table keeps those alone that it has columns of
    return {
        "rows": sorted(rows, key=lambda row: row["sequence"]),
        "bad": sorted(bad, key=lambda row: row["sequence"]),
        "position": TableHandle(url).position,
    }


@pytest.mark.parametrize("before", [None, {"n": "int64"}, {"n": "json", "s": "json"}, WIDE])
@pytest.mark.parametrize("after", [{"n": "int64"}, {"n": "json", "x": "double"}, WIDE])
def test_a_rebuilt_table_is_as_if_it_had_been_made_so(before, after, tmp_path):
    url = make(str(tmp_path / "a"), before)
    rebuild(url, after)
    # A time comes back as the table has it, in UTC.
    payloads = [PAYLOADS[0].replace(b"12:00:00.5+01:00", b"11:00:00.500000Z"), *PAYLOADS[1:]]
    expected = contents(make(str(tmp_path / "b"), after, payloads if before == WIDE else PAYLOADS))
    assert contents(url) == expected


def test_a_rebuild_infers_columns_and_partitions(tmp_path):
    url = make(str(tmp_path / "t"), None)
    rebuild(url, {"day": "date", "place": "token(2)"}, infer=True, partition_by=["day", "place"])
    table = TableHandle(url)
    assert table.layout.partition_by == ("day", "place")
    assert table.layout.columns["x"] == "double?"
    assert table.layout.columns["n"] == "json?"
    assert table.source.infers
    row = contents(url)["rows"][0]
    assert (row["day"].isoformat(), row["place"], row["x"]) == ("1970-01-01", "1", 2.5)
    assert len(contents(url)["bad"]) == 1


def test_headers_stay(tmp_path):
    url = make(str(tmp_path / "t"), {"trace": "header(Trace)", "raw": "payload"})
    rebuild(url, {"n": "int64", "all": "headers", "again": "header(Trace)", "none": "header(X)"})
    row = contents(url)["rows"][0]
    assert (row["all"], row["again"], row["none"]) == ('{"Trace": ["1"]}', "1", None)
    rebuild(url, {"trace": "header(Trace)"})
    assert [row["trace"] for row in contents(url)["rows"]] == [str(n) for n in range(1, 7)]
    with pytest.raises(TableError, match="has no payloads"):
        rebuild(url, {"n": "int64"})


class FailPointError(Exception):
    """Ends a rebuild as a kill would."""


@pytest.mark.parametrize("step", ["add_quarantined", "replace", "replace_quarantined"])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_rebuild_that_is_cut_off_loses_nothing(tmp_path, monkeypatch, step, is_after):
    url = make(str(tmp_path / "t"), {"n": "int64"})
    real = getattr(TableHandle, step)

    def failing(self, *arguments):
        if is_after:
            real(self, *arguments)
        raise FailPointError

    with monkeypatch.context() as patched:
        patched.setattr(TableHandle, step, failing)
        with pytest.raises((FailPointError, TableError)):
            rebuild(url, {"n": "string"})
    kept = contents(url)
    assert {row["sequence"] for row in [*kept["rows"], *kept["bad"]]} == set(range(1, 7))
    rebuild(url, {"n": "string"})
    assert contents(url) == contents(make(str(tmp_path / "b"), {"n": "string"}))


def test_the_command(tmp_path, capsys):
    url = make(str(tmp_path / "t"), None)
    assert cli.main(["table", "rebuild", url, "--column", "n:int64", "--column", "p:token(2)"]) == 0
    assert capsys.readouterr().out == f"{url}: 4 rows\n"
    assert cli.main(["table", "rebuild", url, "--infer", "--partition-by", "n"]) == 2
    assert "expected a column of the kind date or token(N)" in capsys.readouterr().err
    assert cli.main(["table", "rebuild", str(tmp_path / "none")]) == 1
    assert not (tmp_path / "none").exists()


def test_what_cannot_partition(tmp_path):
    url = make(str(tmp_path / "t"), None)
    for name in ("n", "nothing"):
        with pytest.raises(OptionError, match="partition_by"):
            rebuild(url, {"n": "int64"}, partition_by=[name])


def test_a_rebuild_without_room_for_its_rows_changes_nothing(tmp_path, monkeypatch):
    url = make(str(tmp_path / "t"), {"n": "int64"})
    before = contents(url)
    full = partial(open, "/dev/full", "w+b", buffering=0)
    monkeypatch.setattr("midge.pipeline.tables.rebuilding.TemporaryFile", full)
    with pytest.raises(
        TableError, match=f"^{url}: no temporary file for the rows: .*No space left"
    ):
        rebuild(url, {"n": "string"})
    assert contents(url) == before


ON_ONE_CPU = """
import os, sys

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # before Delta starts its threads

from midge import cli
from tests.pipeline.tables.test_rebuilding import make

url = make(sys.argv[1], None)
for words in (
    ["table", "rebuild", url, "--column", "day:date", "--column", "n:int64", "--infer"],
    ["table", "rebuild", url, "--column", "day:date", "--infer", "--partition-by", "day"],
    ["table", "compact", url],
    ["sql", "SELECT count(*) FROM t", url, "--landed"],
    ["table", "ls", os.path.dirname(url)],
):
    assert cli.main(words) == 0, words
"""


@pytest.mark.timeout(300)
def test_every_command_ends_on_a_machine_with_one_cpu(tmp_path, root):
    """Delta has one thread there, which must not wait for itself; no signal ends such a wait."""
    command = [sys.executable, "-c", ON_ONE_CPU, str(tmp_path / "t")]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=250, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
