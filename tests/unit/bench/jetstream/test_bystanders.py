"""The probe beside a stream, what makes the stream work, and what is said of both."""

from __future__ import annotations

import itertools
import socket

import pytest

from bench import bystanders, frames, wire
from bench.jetstream.bystanders import CASES, Chunks, lines
from bench.metrics import ScenarioError

FIGURES = {"done": 2_000.0, "others_busy": 0.1, "server_busy": 0.6} | {
    f"{kind}_{name}": 100.0
    for kind in bystanders.KINDS
    for name in ("p50_us", "p99_us", "p999_us", "max_us")
}


def test_half_of_the_probe_is_on_subjects_of_the_stream() -> None:
    for case in CASES:
        subjects = case.subjects()
        assert [subject.startswith(b"js.") for subject in subjects] == [True, True, False, False]
        assert len({len(subject) for subject in subjects}) == 1
        assert sorted(case.order()) == [0, 1, 2, 3]


def test_no_two_neighbours_among_the_lines_are_alike() -> None:
    found = lines(1_000)
    assert all(one != other for one, other in itertools.pairwise(found))
    assert all(line.startswith(b"PUB js.0") and b" _INBOX." in line for line in found)
    assert all(len(line.split(b"\r\n")[0].split(b" ")) == 3 for line in lines(10, 50, b""))


def read(*pieces: bytes) -> tuple[list[bytes], bytes]:
    """Return the replies of what comes, and what was answered."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for piece in pieces:
            theirs.sendall(piece)
        replies = list(Chunks(ours).until_end())
        ours.shutdown(socket.SHUT_WR)
        return replies, theirs.recv(100)


END = b"HMSG _INBOX.a 2 16 16\r\nNATS/1.0 204\r\n\r\n\r\n"


def test_the_pieces_of_a_snapshot_end_with_an_empty_message() -> None:
    chunk = frames.msg(b"_INBOX.a", b"2", b"\r\nMSG" * 500, reply=b"$JS.SNAPSHOT.ACK.S.x.1.1")
    last = frames.msg(b"_INBOX.a", b"2", b"rest")
    replies, answered = read(chunk, wire.PING, chunk[:700], chunk[700:], last, END)
    assert replies == [b"$JS.SNAPSHOT.ACK.S.x.1.1"] * 2 + [b""]
    assert answered == wire.PONG
    assert read(END) == ([], b"")
    assert read(frames.msg(b"_INBOX.a", b"2", b"")) == ([], b"")


def test_a_closed_connection_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(ScenarioError, match="closed"):
        list(Chunks(ours).until_end())


def test_waits_are_judged_one_by_one() -> None:
    slow = FIGURES | {"same_p999_us": 10_001.0, "other_max_us": 50_000.0}
    text = "".join(bystanders.rows(CASES[0], slow, FIGURES))
    assert (
        "on subjects that the stream takes, p99.9 | 10.00 ms | 0.10 ms | ≤ 10 ms **missed** |"
        in text
    )
    assert "elsewhere, longest | 50.00 ms | 0.10 ms | ≤ 50 ms reached |" in text
    assert text.count("reached") == 3
    busy = "".join(bystanders.rows(CASES[0], slow | {"others_busy": 0.9}, FIGURES))
    assert "≤ 10 ms not judged: others used 0.9 cores" in busy
    assert busy.count("reached") == 3


def test_why_there_are_no_figures_is_told() -> None:
    text = "".join(bystanders.rows(CASES[0], "it ended", FIGURES))
    assert "| failed | it ended |" in text
