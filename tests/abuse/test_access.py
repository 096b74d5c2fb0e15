"""Abuse of permissions and hooks: permissions that change, hooks that fail. Rows 23 and 24."""

from __future__ import annotations

import random
import re
import socket
import time
from dataclasses import dataclass, field

import pytest

from tests.abuse.conftest import Target, Victim, ask, wait_until
from tests.abuse.hooks import WRONG
from tests.property.test_permissions_oracle import UNIVERSE, denies, stands_for

MESSAGE = re.compile(rb"MSG (\S+) (\S+) \d+\r\n(\d+)\r\n")
RELOADED = "Reloaded server configuration"
BYSTANDER = '{"verbose":false,"user":"bystander","pass":"p"}'


def user_line(name: str) -> bytes:
    return b'CONNECT {"verbose":false,"user":"%b","pass":"p"}' % name.encode()


# Row 23.


@dataclass
class Rules:
    """What one user may have."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def text(self) -> str:
        allow, deny = (", ".join(f'"{one}"' for one in part) for part in (self.allow, self.deny))
        allowed = f"allow: [{allow}], " if self.allow else ""
        return f"{{subscribe: {{{allowed}deny: [{deny}]}}}}"


@dataclass
class Subscriptions:
    """The subscriptions of the receiver that the server has accepted, by sid."""

    patterns: dict[bytes, tuple[str, str | None]] = field(default_factory=dict)

    def expected(self, rules: Rules) -> set[tuple[str, str]]:
        """List the deliveries: a sid, or the name of a queue group, and a subject."""
        return {
            (queue or sid.decode(), subject)
            for sid, (pattern, queue) in self.patterns.items()
            for subject in UNIVERSE
            if stands_for(pattern, subject) and not denies(rules.deny, subject, queue)
        }


def pattern(rng: random.Random) -> str:
    tokens = [rng.choice("abc*") for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.5:
        tokens[-1] = ">"
    return ".".join(tokens)


def rules(rng: random.Random) -> Rules:
    def some(most: int) -> tuple[str, ...]:
        found = [pattern(rng) for _ in range(rng.randint(0, most))]
        return tuple(f"{one} {rng.choice('pq')}" if rng.random() < 0.3 else one for one in found)

    return Rules(some(2), some(5))


def config(receiver: Rules) -> str:
    users = (
        "{user: bystander, password: p}, {user: publisher, password: p}",
        f"{{user: receiver, password: p, permissions: {receiver.text()}}}",
    )
    return f"authorization {{ users = [ {', '.join(users)} ] }}"


def subscribe(client: socket.socket, rng: random.Random, number: int) -> Subscriptions:
    """Replace all subscriptions by random ones; note those that are accepted."""
    made = Subscriptions()
    client.sendall(b"".join(b"UNSUB %d-%d\r\n" % (number - 1, i) for i in range(12)))
    for i in range(12):
        subject, queue = pattern(rng), rng.choice(("p", "q", None, None))
        sid = b"%d-%d" % (number, i)
        line = b"SUB %b %b %b" % (subject.encode(), (queue or "").encode(), sid)
        if b"-ERR" not in ask(client, line):
            made.patterns[sid] = (subject, queue)
    return made


def publish_all(client: socket.socket, number: int) -> int:
    """Publish to every subject there is, numbering the messages; return the next number."""
    lines = []
    for offset, subject in enumerate(UNIVERSE):
        body = b"%d" % (number + offset)
        lines.append(b"PUB %b %d\r\n%b" % (subject.encode(), len(body), body))
    ask(client, *lines)
    return number + len(UNIVERSE)


def delivered(client: socket.socket) -> list[tuple[bytes, str, int]]:
    """Return sid, subject and number of each message; a reload's -ERR may come at any time."""
    client.sendall(b"PING\r\n")
    got = b""
    while b"PONG\r\n" not in got:
        piece = client.recv(1 << 16)
        assert piece, got[-200:]
        got += piece
    found = MESSAGE.findall(got)
    return [(sid, subject.decode(), int(number)) for subject, sid, number in found]


@pytest.mark.row(23)
@pytest.mark.parametrize("rounds", [6, pytest.param(40, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_nothing_denied_is_delivered(victim: Victim, rounds: int) -> None:
    rng = random.Random(rounds)
    now = rules(rng)
    with victim(config(now), connect=BYSTANDER) as target:
        receiver, publisher = target.dial(is_connected=False), target.dial(is_connected=False)
        ask(receiver, user_line("receiver"))
        ask(publisher, user_line("publisher"))
        number = 0
        for round_ in range(1, rounds + 1):
            made = subscribe(receiver, rng, round_)
            number = publish_all(publisher, number)
            got = [
                (made.patterns[sid][1] or sid.decode(), subject)
                for sid, subject, _ in delivered(receiver)
            ]
            assert sorted(got) == sorted(made.expected(now)), now
            old, now = now, rules(rng)
            clients = (publisher, receiver)
            number = reload_in_flight(target, clients, made, (old, now), number)


def reload_in_flight(
    target: Target,
    clients: tuple[socket.socket, socket.socket],
    made: Subscriptions,
    change: tuple[Rules, Rules],
    number: int,
) -> int:
    """Change the rules amid messages; no message that was always denied may come."""
    publisher, receiver = clients
    old, new = change
    loaded = target.server.log.count(RELOADED)
    number = publish_all(publisher, number)
    target.server.signal("SIGHUP", config(new))
    came = []
    while target.server.log.count(RELOADED) == loaded:
        number = publish_all(publisher, number)
        came += delivered(receiver)
    in_force_from = number
    number = publish_all(publisher, number)
    came += delivered(receiver)
    for sid, subject, at in came:
        queue = made.patterns[sid][1]
        is_denied = denies(new.deny, subject, queue)
        if at < in_force_from:
            is_denied = is_denied and denies(old.deny, subject, queue)
        assert not is_denied, (subject, queue, change)
    return number


@pytest.mark.row(23)
def test_answers_are_granted_so_many_times_for_so_long(victim: Victim) -> None:
    granted = '{allow_responses: {max: 2, expires: "400ms"}, subscribe: ask}'
    users = f"{{user: bystander, password: p}}, {{user: r, password: p, permissions: {granted}}}"
    with victim(f"authorization {{ users = [ {users} ] }}", connect=BYSTANDER) as target:
        asker, answering = target.dial(), target.dial(is_connected=False)
        ask(answering, user_line("r"), b"SUB ask 1")
        ask(asker, b"SUB answer.> 1")
        ask(asker, *(b"PUB ask answer.%d 0\r\n" % i for i in range(3)))
        assert ask(answering).count(b"MSG ask 1 answer.") == 3
        refused = ask(answering, *[b"PUB answer.0 0\r\n"] * 5, b"PUB answer.9 0\r\n")
        assert refused.count(b"Permissions Violation") == 4
        assert ask(asker).count(b"MSG answer.0 ") == 2
        time.sleep(0.5)  # the grants expire by the server's own clock
        late = ask(answering, *(b"PUB answer.%d 0\r\n" % i for i in (1, 2)))
        assert late.count(b"Permissions Violation") == 2
        assert ask(asker) == b"PONG\r\n"


# Row 24.

HOOK_TIMEOUT_S = 0.5
AFTERWARDS = b"PING\r\nSUB > 1\r\nPUB bystander.x 0\r\n\r\n"


@pytest.mark.row(24)
@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_hook_that_goes_wrong_refuses(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("MIDGE_AUTHORIZATION_HOOK", "tests.abuse.hooks:authenticate")
    monkeypatch.setenv("MIDGE_AUTHORIZATION_HOOK_TIMEOUT_S", str(HOOK_TIMEOUT_S))
    with victim(connect=BYSTANDER) as target:
        files = target.descriptors()
        for name in WRONG:
            crowd = [target.dial(is_connected=False) for _ in range(count)]
            for client in crowd:
                client.sendall(
                    user_line(name) + b"\r\nPING\r\nSUB > 1\r\nPUB bystander.x 0\r\n\r\n"
                )
            for client in crowd:
                assert b"PONG" not in ask(client), name
                client.close()
        target.wait_for_descriptors(files)
        assert ask(target.dial(), b"SUB a 1", b"PUB a 1", b"x").endswith(b"x\r\nPONG\r\n")


@pytest.mark.row(24)
def test_hooks_that_hang_keep_nobody_out(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDGE_AUTHORIZATION_HOOK", "tests.abuse.hooks:authenticate")
    monkeypatch.setenv("MIDGE_AUTHORIZATION_HOOK_TIMEOUT_S", str(HOOK_TIMEOUT_S))
    monkeypatch.setenv("MIDGE_AUTHORIZATION_HOOK_CONCURRENCY", "8")
    with victim(connect=BYSTANDER) as target:
        crowd = [target.dial(is_connected=False) for _ in range(16)]
        for client in crowd:
            client.sendall(user_line("hang") + b"\r\n")
        # A client that waits longer than the time-out for a place is refused too, and may try
        # again.
        wait_until(lambda: ask(target.dial()) == b"PONG\r\n", "a place", timeout_s=60.0)
        for client in crowd:
            assert b"PONG" not in ask(client)
        wait_until(lambda: target.server.log.count("authentication error") >= 8, "their end")
