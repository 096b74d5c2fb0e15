"""The frames that the generator sends and expects."""

import pytest

from bench import frames


def test_pub_and_the_msg_it_becomes() -> None:
    assert frames.pub(b"a.b", b"hi") == b"PUB a.b 2\r\nhi\r\n"
    assert frames.pub(b"a.b", b"hi", reply=b"r") == b"PUB a.b r 2\r\nhi\r\n"
    assert frames.msg(b"a.b", b"7", b"hi") == b"MSG a.b 7 2\r\nhi\r\n"
    assert frames.msg(b"a.b", b"7", b"hi", reply=b"r") == b"MSG a.b 7 r 2\r\nhi\r\n"


def test_headers_turn_them_into_hpub_and_hmsg() -> None:
    block = b"NATS/1.0\r\n\r\n"
    assert frames.pub(b"a", b"hi", headers=block) == b"HPUB a 12 14\r\n" + block + b"hi\r\n"
    assert frames.msg(b"a", b"1", b"hi", headers=block) == b"HMSG a 1 12 14\r\n" + block + b"hi\r\n"


def test_the_header_block_of_the_scenarios_is_a_whole_one() -> None:
    assert frames.HEADER_BLOCK.startswith(b"NATS/1.0\r\n")
    assert frames.HEADER_BLOCK.endswith(b"\r\n\r\n")


def test_sub_with_and_without_queue() -> None:
    assert frames.sub(b"a.>", b"1") == b"SUB a.> 1\r\n"
    assert frames.sub(b"a.>", b"1", b"q") == b"SUB a.> q 1\r\n"


@pytest.mark.parametrize("count", [1, 2, 10, 11, 1000])
def test_numbered_subjects_are_distinct_and_equally_long(count: int) -> None:
    subjects = frames.numbered(b"load", count)
    assert len(set(subjects)) == count
    assert len({len(subject) for subject in subjects}) == 1


def test_one_frame_is_repeated_to_fill_a_chunk() -> None:
    assert frames.chunks([b"12345"], 22) == [frames.Chunk(b"12345" * 4, 4)]


def test_many_frames_go_to_several_chunks_in_order_and_uncut() -> None:
    packed = frames.chunks([b"%05d" % number for number in range(7)], 15)
    assert [chunk.messages for chunk in packed] == [3, 3, 1]
    assert b"".join(chunk.data for chunk in packed) == b"".join(b"%05d" % n for n in range(7))


def test_a_frame_larger_than_the_chunk_is_sent_whole() -> None:
    assert frames.chunks([b"x" * 100], 10) == [frames.Chunk(b"x" * 100, 1)]


def test_frames_of_any_length_are_packed_in_order_and_uncut() -> None:
    packed = frames.packed([b"12", b"345", b"6", b"789012345", b"x"], 5)
    assert [chunk.data for chunk in packed] == [b"12345", b"6", b"789012345", b"x"]
    assert [chunk.messages for chunk in packed] == [2, 1, 1, 1]
    assert frames.packed([], 5) == []
