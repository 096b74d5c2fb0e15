"""Requests are read, and refused, as Go reads and refuses them."""

from __future__ import annotations

import pytest

from midge.jetstream.config.stream import REQUEST, StreamConfig, StreamRequest
from midge.jetstream.json import structure
from midge.jetstream.json.plain import NOT_PLAIN
from midge.jetstream.json.structure import Integer, Items, Text
from midge.jetstream.stream.searching import GET, GetRequest


def read(text: str) -> StreamRequest:
    request: StreamRequest = structure.decode(text.encode(), REQUEST, StreamRequest())
    return request


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("{", "unexpected EOF"),
        ('{"a":nul', "unexpected EOF"),
        ("{b", "invalid character 'b' looking for beginning of object key string at offset 2"),
        (
            "{'a':1}",
            r"invalid character '\'' looking for beginning of object key string at offset 2",
        ),
        ('{"a" 1}', "invalid character '1' after object key at offset 6"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair at offset 8"),
        ('{"a":[1 2]}', "invalid character '2' after array element at offset 9"),
        ('{"a":01}', "invalid character '1' after object key:value pair at offset 7"),
        ('{"a":1.}', "invalid character '}' in numeric literal at offset 8"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e') at offset 9"),
        ('{"name":"\x01"}', r"invalid character '\x01' in string at offset 10"),
        ('{"name":"\\x"}', r"invalid escape sequence `\x` in string at offset 11"),
        ('{"name":"\\u12"}', r'invalid escape sequence `\u12"}` in string at offset 15'),
        ("é", "invalid character 'é' looking for beginning of value at offset 2"),
        ("[" * 10_001, "exceeded max depth at offset 10001"),
        ('{"name":"A"}x', "invalid character 'x' looking for beginning of value at offset 13"),
        ("[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
        (
            '{"name":1}',
            (
                "json: cannot unmarshal number into Go struct field StreamConfigRequest.name"
                " of type string"
            ),
        ),
        (
            '{"max_msgs":1.5}',
            (
                "json: cannot unmarshal number 1.5 into Go struct field"
                " StreamConfigRequest.max_msgs of type int64"
            ),
        ),
        (
            '{"subjects":["a",1]}',
            "json: cannot unmarshal number into StreamConfigRequest.subjects.1 of type string",
        ),
        (
            '{"sources":[{"name":1}]}',
            (
                "json: cannot unmarshal number into Go struct field"
                " StreamConfigRequest.sources.0.name of type string"
            ),
        ),
        ('{"retention": { "a" : 1 } }', 'can not unmarshal "{ \\"a\\" : 1 }"'),
        ('{"storage":null}', 'can not unmarshal "null"'),
        ('{"compression":"zz"}', "unknown compression algorithm"),
        ('{"bogus":1}', 'json: unknown field "bogus"'),
        (
            '{"max_msgs":"x","retention":"zzz"}',
            (
                "json: cannot unmarshal string into Go struct field"
                " StreamConfigRequest.max_msgs of type int64"
            ),
        ),
        ('{"max_msgs":"x"', "unexpected EOF"),
        (
            '{"mirror":{"opt_start_time":"2020-13-01T00:00:00Z"}}',
            'parsing time "2020-13-01T00:00:00Z": month out of range',
        ),
        (
            '{"mirror":{"opt_start_time":"x"}}',
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_in_words_of_go(text: str, refusal: str) -> None:
    with pytest.raises(structure.JsonProblem) as problem:
        read(text)
    assert str(problem.value) == refusal


def test_names_match_whatever_their_case_and_null_leaves_values_alone() -> None:
    assert read('{"NAME":"A","name":null,"\u017fealed":true}').sealed
    assert read('{"NAME":"A","name":null}').name == "A"


def test_several_values_are_read_into_one_request() -> None:
    request = read('{"name":"x","metadata":{"a":"1"}}{"name":"A","metadata":{"b":"2"}}')
    assert (request.name, request.metadata) == ("A", {"a": "1", "b": "2"})


def test_escapes_and_pairs_of_surrogates_become_characters() -> None:
    assert read('{"name":"\\u0041\\n\\ud83d\\ude00\\ud800x"}').name == "A\n\U0001f600\ufffdx"


def test_a_lenient_request_may_name_what_nobody_knows() -> None:
    body = b'{"name":"A","bogus":{"x":[1]}}'
    assert structure.decode(body, REQUEST, StreamRequest(), is_strict=False).name == "A"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("{", "unexpected end of JSON input"),
        ('{"a":1}x', "invalid character 'x' after top-level value"),
        ('{"bogus":"\n"}', r"invalid character '\n' in string"),
    ],
)
def test_a_lenient_request_has_other_words(text: str, refusal: str) -> None:
    with pytest.raises(structure.JsonProblem) as problem:
        structure.decode(text.encode(), REQUEST, StreamRequest(), is_strict=False)
    assert str(problem.value) == refusal


@pytest.mark.parametrize(
    ("body", "is_empty"),
    [
        (b"", True),
        (b"{}", True),
        (b" { } ", True),
        (b'{"a":1}', False),
        (b"x", False),
        (b"[]", False),
    ],
)
def test_an_empty_request_is_nothing_or_an_object_of_nothing(body: bytes, is_empty: bool) -> None:
    assert structure.is_empty_request(body) is is_empty


def test_what_does_not_look_like_json_is_no_request_at_all() -> None:
    assert structure.is_object_or_array(b" \n{")
    assert not structure.is_object_or_array(b"xx")


def test_numbers_have_the_range_of_their_field() -> None:
    highest = structure.decode(b'{"seq":18446744073709551615}', GET, GetRequest())
    assert highest.seq == 2**64 - 1
    for text in (b'{"seq":18446744073709551616}', b'{"seq":-1}', b'{"batch":9223372036854775808}'):
        with pytest.raises(structure.JsonProblem):
            structure.decode(text, GET, GetRequest())


def test_a_list_is_plain_if_all_its_values_are() -> None:
    texts = Items(Text(), "[]string")
    assert texts.plain(["a", "b"], None) == ["a", "b"]
    assert texts.plain([], None) == []
    assert texts.plain(["a", 1], None) is NOT_PLAIN
    assert Items(Integer("int"), "[]int").plain([1, True], None) is NOT_PLAIN
    held = ["a"]
    written = texts.encode(held)
    assert written == held
    assert written is not held


def test_a_clone_of_a_configuration_has_lists_of_its_own() -> None:
    config = StreamConfig(name="S", subjects=["a", "b"], metadata={"k": "v"})
    clone = config.clone()
    assert clone == config
    clone.subjects.append("c")
    clone.metadata["k"] = "w"
    assert (config.subjects, config.metadata) == (["a", "b"], {"k": "v"})
