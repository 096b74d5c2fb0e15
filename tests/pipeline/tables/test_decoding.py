"""From payloads to columns: one row and one reason for each kind of value."""

from datetime import UTC, datetime

import pytest

from midge.client.errors import OptionError
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables.decoding import COLUMNS_MAX, Decoder

pytestmark = pytest.mark.timeout(20)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def messages(*payloads, subjects=None):
    return Columns(
        seqs=list(range(1, len(payloads) + 1)),
        times_ns=[1_700_000_000_123_456_789] * len(payloads),
        subjects=list(subjects or [b"a"] * len(payloads)),
        payloads=list(payloads),
        headers=[b""] * len(payloads),
    )


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int64", "9223372036854775807", 2**63 - 1),
        ("int64", "-9223372036854775808", -(2**63)),
        ("int64", "0", 0),
        ("double", "2.5", 2.5),
        ("double", "9007199254740992", 2.0**53),
        ("double", "1e3", 1000.0),
        ("double", "-0.0", 0.0),
        ("boolean", "true", True),
        ("string", '"\\u00e9\\n"', "\u00e9\n"),
        (
            "timestamp",
            '"2026-01-31T13:00:00.1234567+01:00"',
            datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        ),
        ("json", '{"a": [1, 2.50, 123456789012345678901234567890]}', None),
        ("json", "[]", None),
    ],
)
def test_a_value_that_fits(kind, text, value):
    decoded = Decoder({"x": kind}).decode(messages(f'{{"x": {text}}}'.encode()))
    assert decoded.bad.num_rows == 0
    assert decoded.rows.column("x").to_pylist() == [text if kind == "json" else value]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int64", "9223372036854775808"),
        ("int64", "123456789012345678901234567890"),
        ("int64", "2.0"),
        ("int64", '"2"'),
        ("int64", "true"),
        ("double", "9007199254740993"),
        ("double", "1e999"),
        ("double", '"2.5"'),
        ("double", "true"),
        ("boolean", "1"),
        ("boolean", '"true"'),
        ("string", "1"),
        ("string", "[]"),
        ("timestamp", "1700000000"),
        ("timestamp", '"2026-01-31T12:00:00"'),
        ("timestamp", '"yesterday"'),
    ],
)
def test_a_value_that_does_not_fit_is_quarantined(kind, text):
    payload = f'{{"x": {text}}}'.encode()
    decoded = Decoder({"x": kind}).decode(messages(payload, b'{"x": null}'))
    assert decoded.rows.column("sequence").to_pylist() == [2]
    (bad,) = decoded.bad.to_pylist()
    assert (bad["sequence"], bad["payload"]) == (1, payload)
    assert bad["reason"].startswith(f"x: expected {kind}, got {text}")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "the payload is empty"),
        (b"12", "Expected `object`, got `int`"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"x": NaN}', "JSON is malformed"),
        (b'{"x": 1', "Input data was truncated"),
        (b'{"x": 1}\n{"x": 2}', "JSON is malformed"),
        (b"\xff", "JSON is malformed"),
        (b'{"x": 1, "s": "\xff"}', "s: expected string"),
    ],
)
def test_a_payload_that_is_no_object_is_quarantined(payload, reason):
    decoder = Decoder({"x": "int64", "s": "string"})
    decoded = decoder.decode(messages(b'{"x": 7}', payload, b'{"x": 9}'))
    assert decoded.rows.column("x").to_pylist() == [7, 9]
    assert decoded.rows.column("sequence").to_pylist() == [1, 3]
    (bad,) = decoded.bad.to_pylist()
    assert bad["reason"].startswith(reason)


def test_missing_keys_are_null_and_further_keys_stay_exact():
    payload = b'{"b": 12345678901234567890123, "x": 1, "a\\"b": {"c":[1.50]}}'
    decoded = Decoder({"x": "int64", "y": "string"}).decode(messages(payload, b"{}"))
    assert decoded.rows.column("y").to_pylist() == [None, None]
    assert decoded.rows.column("_other").to_pylist() == [
        '{"b":12345678901234567890123,"a\\"b":{"c":[1.50]}}',
        None,
    ]


def test_the_last_of_equal_keys_counts():
    decoded = Decoder({"x": "int64"}).decode(messages(b'{"x": 1, "x": 2}'))
    assert decoded.rows.column("x").to_pylist() == [2]


def test_raw_payloads_stay_as_they_are():
    decoded = Decoder(None).decode(messages(b"", b"\xff", subjects=[b"a", b"\xfe.b"]))
    assert decoded.rows.column("payload").to_pylist() == [b"", b"\xff"]
    assert decoded.rows.column("subject").to_pylist() == ["a", "\\xfe.b"]
    assert decoded.rows.column("time")[0].as_py().microsecond == 123456


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "expected 1 to 500, got 0"),
        ({f"c{n}": "json" for n in range(COLUMNS_MAX + 1)}, "expected 1 to 500, got 501"),
        ({"x": "int"}, "x: expected one of string, int64"),
        ({"a b": "json"}, "expected a name without blanks"),
        ({"Sequence": "int64"}, "Sequence: expected another name than sequence"),
        ({"_OTHER": "int64"}, "expected another name than _other"),
        ({"x": "int64", "X": "int64"}, "X: expected another name than x"),
    ],
)
def test_columns_that_cannot_be(columns, words):
    with pytest.raises(OptionError, match=words):
        Decoder(columns)


def test_columns_of_what_comes_with_the_payload():
    columns = {"raw": "payload", "day": "date", "one": "token(2)", "id": "header(Id)"}
    found = messages(b"x", b"", subjects=[b"a", b"b.\xff.c"])
    found.headers[1] = b"NATS/1.0\r\nId: 7\r\nId: 8\r\nOther: words\r\n\r\n"
    decoded = Decoder({**columns, "all": "headers"}).decode(found)
    first, second = decoded.rows.drop_columns(["sequence", "time", "subject"]).to_pylist()
    day = datetime(2023, 11, 14, tzinfo=UTC).date()
    assert first == {"raw": b"x", "day": day, "one": None, "id": None, "all": None}
    assert (second["one"], second["id"]) == ("\\xff", "7")
    assert second["all"] == '{"Id": ["7", "8"], "Other": ["words"]}'


def test_a_lenient_column_leaves_what_does_not_fit_in_other():
    decoded = Decoder({"x": "int64?"}).decode(messages(b'{"x": 1}', b'{"x": 2.5, "y": 1}'))
    assert decoded.bad.num_rows == 0
    assert decoded.rows.column("x").to_pylist() == [1, None]
    assert decoded.rows.column("_other").to_pylist() == [None, '{"x":2.5,"y":1}']


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "null", "-2"], "int64?"),
        (["1", "2.5"], "double?"),
        (["9223372036854775809"], "json?"),
        (["true", "false"], "boolean?"),
        (['"2026-01-31T12:00:00Z"', '"2026-01-31T12:00:00+01:00"'], "timestamp?"),
        (['"2026-01-31T12:00:00Z"', '"soon"'], "string?"),
        (['"a"', "1"], "json?"),
        (["[1]"], "json?"),
        (['{"a": 1}'], "json?"),
        (["null"], None),
    ],
)
def test_inferred_kinds(values, kind):
    decoder = Decoder(None, infers=True)
    decoder.decode(messages(*(f'{{"x": {value}}}'.encode() for value in values)))
    assert decoder.columns == ({"x": kind} if kind else {})


def test_inferring_leaves_names_that_cannot_be_in_other():
    decoder = Decoder({"A": "int64"}, infers=True)
    decoded = decoder.decode(messages(b'{"a": 1, "b c": 2, "sequence": 3, "d": 4}'))
    assert list(decoder.columns) == ["A", "d"]
    assert decoded.rows.column("_other").to_pylist() == ['{"a":1,"b c":2,"sequence":3}']
    many = b"{%s}" % b",".join(b'"c%d":1' % n for n in range(COLUMNS_MAX + 5))
    decoder.decode(messages(many))
    assert len(decoder.columns) == COLUMNS_MAX
