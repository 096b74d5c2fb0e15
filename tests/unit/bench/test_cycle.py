"""Prebuilt frames in a ring: none is left out, and each round has another number."""

from bench.cycle import ROUND, Cycle


def test_pieces_of_any_size_join_to_the_frames_over_and_over() -> None:
    frames = [b"a", b"bb", b"ccc"]
    cycle = Cycle(frames)

    taken = b"".join(bytes(cycle.take(count)) for count in (2, 3, 1, 3))

    assert taken == b"".join(frames) * 3


def test_the_number_of_the_round_changes_exactly_where_the_frames_begin_again() -> None:
    cycle = Cycle([b"0-%b " % ROUND, b"1-%b " % ROUND, b"2-%b " % ROUND])

    taken = b"".join(bytes(cycle.take(2)) for _ in range(5)).split()

    assert taken == [b"%d-%06d" % (index % 3, index // 3) for index in range(10)]
