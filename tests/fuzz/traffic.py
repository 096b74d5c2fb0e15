"""Input of the fuzzed clients: mostly lines of the protocol, some of them damaged.

A script is a list of steps, plain tuples, so that a failing one can be read and pasted:

- ``("feed", n, data)``: client `n` sends `data`, after it has come (again) if it is not there;
- ``("eof", n)``, ``("lost", n)``, ``("reset", n)``: it sends no more, is gone, or gone with an
  error;
- ``("clog", n, room)``: its socket takes `room` bytes more and then none, until ``("drain", n)``;
- ``("break", n)``: its socket fails at the next write, in the middle of a flush;
- ``("garble", seed)``: the next bytes that a framing makes arrive damaged;
- ``("reload",)``: the same settings are put in force again, which changes nothing for any client;
- ``("pass", seconds)``: time passes.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

CLIENTS = 4

Step = tuple[object, ...]


class Script(NamedTuple):
    """A script: the CONNECT of each client, and then the steps."""

    introductions: list[bytes]
    steps: list[Step]


def _weighted(*choices: tuple[int, list[bytes]]) -> st.SearchStrategy[bytes]:
    """Draw from lists, each as often as its weight says."""
    return st.sampled_from([one for weight, ones in choices for one in ones * weight])


SUBJECTS = _weighted(
    (4, [b"a", b"b", b"a.b", b"a.b.c"]),
    (1, [b"c.d", b"x" * 20, b"_INBOX.1", b"PUB", b"m.a", b"deny.a"]),
    (1, [b"$SYS.a", b"$NRG.a", b"_GR_.a", b"a..b", b".a", b"a.", b"a\x00b", b"\xff\xfe"]),
)
PATTERNS = st.one_of(
    SUBJECTS,
    st.sampled_from(
        [b"*", b">", b"a.*", b"a.>", b"*.b", b"a.*.c", b"*.*", b">.a", b"a.>.b", b"a*"]
    ),
)
SIDS = st.sampled_from([b"1", b"2", b"3", b"4", b"17", b"s" * 30])
QUEUES = st.sampled_from([b"q", b"r", b"_sys_"])
REPLIES = st.sampled_from([b"", b"", b"_INBOX.1", b"a", b"_R_.a", b"$JS.ACK.a", b"*"])
BLANKS = _weighted((6, [b" "]), (1, [b"\t", b"  ", b" \t "]))
ENDS = _weighted((6, [b"\r\n"]), (1, [b"\n", b"\r\r\n"]))
PAYLOADS = _weighted(
    (3, [b"", b"hello", b"x" * 16, b"\r\n", b"PUB a 0\r\n\r\n", b"y" * 100]),
    (1, [b"z" * 700, b"w" * 2000, b"\0" * 40]),
)
HEADERS = st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"", b"nonsense"])

CONNECTS = _weighted(
    (4, [b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n']),
    (
        1,
        [
            b"",
            b"CONNECT {}\r\n",
            b'CONNECT {"verbose":false,"headers":false}\r\n',
            b'CONNECT {"verbose":false,"headers":true,"echo":false}\r\n',
            b'CONNECT {"verbose":true,"pedantic":true,"protocol":1}\r\n',
            b'connect\t{"verbose":false,"headers":true,"no_responders":true,"protocol":1}\n',
            b'CONNECT {"verbose":false,"headers":true,"user":"u","pass":"p"}\r\n',
            b'CONNECT {"user":"u","pass":"wrong"}\r\n',
        ],
    ),
)
BAD_CONNECTS = st.sampled_from(
    [
        b"CONNECT {\r\n",
        b"CONNECT \r\n",
        b'CONNECT {"no_responders":true,"headers":false}\r\n',
        b'CONNECT {"protocol":7}\r\n',
        b'CONNECT {"account":"x","verbose":"maybe"}\r\n',
    ]
)
OTHERS = st.sampled_from(
    [
        b"PING\r\n",
        b"PING\r\n",
        b"ping \t\r\n",
        b"PONG\r\n",
        b"PONG with words\n",
        b"+OK\r\n",
        b"INFO {}\r\n",
        b"SUB  \t  a 1\r\n",
        b"UNSUB 1 \r\n",
        b"SUB a q 1 2\r\n",
        b"PUB a\r\n",
        b"PUB a -1\r\n",
        b"PUB a 1234567890\r\n",
        b"HPUB a 5 3\r\nabc\r\n",
        b"-ERR 'no'\r\n",
        b"\r\n",
    ]
)


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """Draw a PUB or HPUB that is right, however it may be written."""
    words = [draw(SUBJECTS)]
    if reply := draw(REPLIES):
        words.append(reply)
    payload = draw(PAYLOADS)
    verb = draw(st.sampled_from([b"PUB", b"PUB", b"pub", b"HPUB"]))
    if verb == b"HPUB":
        headers = draw(HEADERS)
        payload = headers + payload
        words.append(b"%d" % len(headers))
    words.append(b"0" * draw(st.sampled_from([0, 0, 0, 2])) + b"%d" % len(payload))
    return draw(BLANKS).join([verb, *words]) + draw(ENDS) + payload + b"\r\n"


@st.composite
def subscribes(draw: st.DrawFn) -> bytes:
    """Draw a SUB."""
    words = [b"SUB", draw(PATTERNS), draw(SIDS)]
    if draw(st.booleans()):
        words.insert(2, draw(QUEUES))
    return draw(BLANKS).join(words) + draw(ENDS)


@st.composite
def unsubscribes(draw: st.DrawFn) -> bytes:
    """Draw an UNSUB, with a count or without."""
    most = draw(st.sampled_from([b"", b"", b" 1", b" 3", b" 0", b" -1", b" x"]))
    return b"UNSUB " + draw(SIDS) + most + draw(ENDS)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw `data` with one thing wrong: a byte changed, lost or added, a part gone or doubled."""
    at = draw(st.integers(0, max(0, len(data) - 1)))
    kind = draw(st.sampled_from(["change", "drop", "insert", "cut", "double"]))
    byte = bytes([draw(st.one_of(st.sampled_from(b"\r\n \t\0019.*>"), st.integers(0, 255)))])
    if kind == "change":
        return data[:at] + byte + data[at + 1 :]
    if kind == "drop":
        return data[:at] + data[at + 1 :]
    if kind == "insert":
        return data[:at] + byte + data[at:]
    return data[:at] if kind == "cut" else data + data[at:]


LINES = st.one_of(
    publishes(), publishes(), publishes(), subscribes(), subscribes(), unsubscribes(), OTHERS
)
REPEATED = st.builds(lambda line, times: line * times, publishes(), st.integers(2, 6))


def _run(head: bytes, headers: bytes, size: int, times: int) -> bytes:
    """Return messages that are alike but for their payloads, of `size` bytes each."""
    block = b"%d %d" % (len(headers), len(headers) + size) if headers else b"%d" % size
    line = b"%b %b %b\r\n%b" % (b"HPUB" if headers else b"PUB", head, block, headers)
    return b"".join(
        b"%b%b\r\n" % (line, (b"%d " % i * size)[:size] if size else b"") for i in range(times)
    )


_HEADS = st.sampled_from([b"a", b"a.b", b"a r", b"c.d _INBOX.1", b"$NRG.a", b"deny.a", b"m.a"])
RUNS = st.builds(
    _run,
    _HEADS,
    st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n"]),
    st.sampled_from([0, 1, 5, 40]),
    st.integers(2, 30),
)
# More than one output chunk holds, so that output written in pieces stays in order.
LARGE = st.builds(
    _run,
    st.sampled_from([b"a", b"a.b"]),
    st.just(b""),
    st.sampled_from([3_000, 20_000, 65_530, 70_000]),
    st.integers(1, 25),
)
BROKEN = st.one_of(LINES.flatmap(damaged), BAD_CONNECTS, CONNECTS, st.binary(max_size=12), LARGE)


@st.composite
def feeds(draw: st.DrawFn) -> Step:
    """Draw what one client sends at once."""
    lines = draw(st.lists(st.one_of(LINES, LINES, REPEATED, RUNS), min_size=1, max_size=6))
    if draw(st.integers(0, 7)) == 7:
        lines.insert(draw(st.integers(0, len(lines))), draw(BROKEN))
    return "feed", draw(st.integers(0, CLIENTS - 1)), b"".join(lines)


def _mostly(
    weight: int, one: st.SearchStrategy[Step], *others: st.SearchStrategy[Step]
) -> st.SearchStrategy[Step]:
    """Draw from `one` `weight` times as often as from each other; `one_of` drops repetitions."""
    return st.integers(0, weight + len(others) - 1).flatmap(
        lambda number: one if number < weight else others[number - weight]
    )


_CLIENT = st.integers(0, CLIENTS - 1)
_ENDS_OF_CLIENTS = st.tuples(st.sampled_from(["eof", "lost", "reset"]), _CLIENT)
_RELOAD = st.just(("reload",))
_TIME = st.tuples(st.just("pass"), st.sampled_from([0.0, 0.01, 1.0, 3.0, 20.0]))
_PRESSURE = st.one_of(
    st.tuples(st.just("clog"), _CLIENT, st.integers(0, 300)),
    st.tuples(st.sampled_from(["drain", "break"]), _CLIENT),
)
_DAMAGE = st.tuples(st.just("garble"), st.integers(0, 1 << 20))
_PLAIN_STEPS = _mostly(8, feeds(), _ENDS_OF_CLIENTS, _TIME, _RELOAD)
_PRESSURE_STEPS = _mostly(6, feeds(), _ENDS_OF_CLIENTS, _TIME, _RELOAD, _PRESSURE, _PRESSURE)
_DAMAGED_STEPS = _mostly(6, feeds(), _ENDS_OF_CLIENTS, _TIME, _RELOAD, _PRESSURE, _DAMAGE, _DAMAGE)


def scripts(*, with_pressure: bool, with_damage: bool = False) -> st.SearchStrategy[Script]:
    """Draw scripts; with `with_pressure`, sockets do not always take the output.

    With `with_damage`, the bytes of a framing may differ from the client's.
    """
    steps = _PRESSURE_STEPS if with_pressure else _PLAIN_STEPS
    if with_damage:
        steps = _DAMAGED_STEPS
    introductions = st.lists(CONNECTS, min_size=CLIENTS, max_size=CLIENTS)
    return st.builds(Script, introductions, st.lists(steps, max_size=14))
