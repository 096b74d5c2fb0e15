"""A stream's table in Spark: the same rows, by version, with partitions and new columns."""

import pytest

from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.table_handle import Source, TableHandle, create
from midge.tables import read_table, rebuild, scan

DAY_NS = 86_400_000_000_000


def append(url, first, last):
    table = TableHandle(url)
    seqs = list(range(first, last + 1))
    payloads = [b'{"n": %d, "k%d": "x"}' % (seq, seq // 10) for seq in seqs]
    subjects = [b"a.%d%%20" % (seq % 3) for seq in seqs]
    messages = Columns(seqs, [seq * DAY_NS for seq in seqs], subjects, payloads, [b""] * len(seqs))
    table.append(table.decoder().decode(messages), last)
    return table.handle.version()


def rows(frame):
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["sequence"])


@pytest.mark.parametrize("folder", ["t", "a ü+{1,2}*?", "100%"])
def test_versions_partitions_and_new_columns(spark, tmp_path, folder):
    url = str(tmp_path / folder)
    columns = {"n": "int64", "place": "token(2)"}
    create(url, Decoder(columns, infers=True), Source("S", "then", infers=True), ["place"])
    assert rows(read_table(spark, url)) == []
    versions = [append(url, first, first + 8) for first in (1, 10, 19)]
    frame = read_table(spark, url)
    expected = sorted(scan(url, None).to_table().to_pylist(), key=lambda row: row["sequence"])
    found = rows(frame)
    assert [{**row, "time": None} for row in found] == [{**row, "time": None} for row in expected]
    assert frame.where("place = '1%20'").count() == 9
    assert read_table(spark, url, versions[0]).count() == 9
    before = read_table(spark, url)
    rebuild(url, {"n": "double"})
    assert before.count() == 27
    assert read_table(spark, url).schema["n"].dataType.simpleString() == "double"
    with pytest.raises(TableError, match="version 99 cannot be read"):
        read_table(spark, url, 99)
