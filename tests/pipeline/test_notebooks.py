"""The cells of each notebook run one after another, as in Jupyter, but without Jupyter."""

import json
from pathlib import Path

import pytest

import midge.pipeline.session

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


def execute(name):
    """Run the code cells of a notebook; return its variables."""
    document = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells), "saved with outputs"
    variables = {}
    for number, cell in enumerate(cells):
        code = compile("".join(cell["source"]), f"{name}.ipynb cell {number}", "exec")
        exec(code, variables)
    return variables


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, nats_server):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS_URL", nats_server.url)


def test_a_stream_as_a_table():
    found = execute("stream_as_table")
    south, north = (sum(range(start, 20, 2)) * 3 for start in (0, 1))
    expected = [("north", north + 400), ("south", south), ("west", 5)]
    assert found["rows"] == found["turnover"].rows() == expected
    assert found["landed"].num_rows == 20


def test_a_stream_in_spark(spark, monkeypatch):
    monkeypatch.setattr(midge.pipeline.session, "spark_session", lambda _: spark)
    found = execute("stream_in_spark")
    assert list(found["mean"]["subject"]) == ["meters.room0", "meters.room1", "meters.room2"]
    assert found["count"] == 30


def test_there_is_a_test_for_each_notebook():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {
        "stream_as_table",
        "stream_in_spark",
    }
