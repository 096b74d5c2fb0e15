"""The generators count each answer once, however the reads split the stream."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.jetstream.consume import acknowledgements, deliveries
from bench.jetstream.publish import StreamPublish, arrivals
from bench.metrics import ScenarioError

ACK = b'MSG _INBOX.a 1 27\r\n{"stream":"BENCH","seq":%d}\r\n'
DELIVERY = b"MSG rd.a 1 $JS.ACK.READ.c.1.%d.1.1700000000.0 3\r\nxxx\r\n"
PIECES = [1, 5, 7, 64, 1000]


class Pieces:
    """A socket whose reads return the prepared bytes in given sizes, and then the end."""

    def __init__(self, data: bytes, piece_bytes: int) -> None:
        self._data, self._piece_bytes = data, piece_bytes

    def recv_into(self, buffer: bytearray) -> int:
        piece, self._data = self._data[: self._piece_bytes], self._data[self._piece_bytes :]
        buffer[: len(piece)] = piece
        return len(piece)


def until_closed(source: Callable[[], Iterator[Any]]) -> list[Any]:
    """Return what an endless source yields before the server closes the connection."""
    found: list[Any] = []
    with pytest.raises(ScenarioError, match="closed"):
        found.extend(source())  # keeps the results before the error
    return found


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_each_acknowledgement_counts_once(piece_bytes: int) -> None:
    sock: Any = Pieces(b"".join(ACK % number for number in range(9)), piece_bytes)

    assert sum(until_closed(lambda: arrivals(sock, b'"seq":'))) == 9


def test_an_error_in_an_acknowledgement_fails_the_scenario() -> None:
    error = b'MSG _INBOX.a 1 70\r\n{"error":{"code":503,"err_code":10077}}\r\n'
    sock: Any = Pieces(ACK % 1 + error, 1000)

    with pytest.raises(ScenarioError, match="10077"):
        list(arrivals(sock, b'"seq":'))


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_each_delivery_counts_once_and_is_acknowledged_once(piece_bytes: int) -> None:
    sock: Any = Pieces(b"".join(DELIVERY % number for number in range(9)), piece_bytes)

    found = until_closed(lambda: deliveries(sock))

    assert sum(count for count, _ in found) == 9
    acks = b"".join(acknowledgements(data) for _, data in found)
    expected = [b"PUB $JS.ACK.READ.c.1.%d.1.1700000000.0 4\r\n+ACK\r\n" % n for n in range(9)]
    assert acks == b"".join(expected)


def test_each_message_has_a_reply_and_an_id_of_its_own() -> None:
    scenario = StreamPublish(
        name="x", title="x", window=10, subjects=20, own_reply=True, message_ids=True
    )
    lines = [frame.partition(b"\r\n")[0].split() for frame in scenario.frames()]

    assert len({line[2] for line in lines}) == len(lines)
    assert len({line[1] for line in lines}) == 20
    assert {line[0] for line in lines} == {b"HPUB"}
