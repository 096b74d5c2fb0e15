"""Sockets that go from one process to another."""

from __future__ import annotations

import asyncio
import socket

from midge.server.workers.handover import HandoverReceiver, Note, hand_over, make_pair


async def test_a_socket_comes_with_its_note() -> None:
    here, there = make_pair()
    taken: list[tuple[Note, socket.socket]] = []
    receiver = HandoverReceiver(there, lambda note, handed: taken.append((note, handed)))
    receiver.start()
    one, other = socket.socketpair()
    assert hand_over(here, {"to": "nats", "cid": 7}, one)
    one.close()
    await receiver.received(1)
    note, handed = taken[0]
    assert note == {"to": "nats", "cid": 7}
    other.sendall(b"through")
    assert handed.recv(16) == b"through"
    for end in (handed, other, here):
        end.close()
    receiver.close()


async def test_what_does_not_fit_is_refused_and_stays() -> None:
    here, there = make_pair()
    one, other = socket.socketpair()
    sent = 0
    while hand_over(here, {"to": "nats"}, one):
        sent += 1
    assert sent > 0
    other.sendall(b"still")
    assert one.recv(16) == b"still"
    taken: list[socket.socket] = []
    receiver = HandoverReceiver(there, lambda _, handed: taken.append(handed))
    receiver.start()
    await receiver.received(sent)
    assert hand_over(here, {"to": "nats"}, one)
    await receiver.received(sent + 1)
    for end in (*taken, one, other, here):
        end.close()
    receiver.close()


async def test_nothing_can_be_handed_to_nobody() -> None:
    here, there = make_pair()
    there.close()
    one, other = socket.socketpair()
    assert not hand_over(here, {"to": "nats"}, one)
    for end in (here, one, other):
        end.close()


async def test_the_receiver_notes_the_end() -> None:
    here, there = make_pair()
    receiver = HandoverReceiver(there, lambda *_: None)
    receiver.start()
    here.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    receiver.close()
