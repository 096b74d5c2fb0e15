"""Limits of the server: control line, payload, connections, subscriptions, tokens."""

from tests.differential.script import (
    AwaitClose,
    Open,
    Script,
    ServerConfig,
    connect,
    group,
    hpub,
    on,
    pub,
    quiet_after,
    script,
    sub,
    unsynced,
)

SMALL = ServerConfig("small-limits", "max_payload: 16\nmax_control_line: 128\n")
SUBSCRIPTIONS = ServerConfig("max-subscriptions", "max_subscriptions: 3\n")
TOKENS = ServerConfig("max-sub-tokens", "max_sub_tokens: 3\n")
CONNECTIONS = ServerConfig("max-connections", "max_connections: 2\n")
NO_CONNECTIONS = ServerConfig("no-connections", "max_connections: 0\n")
UNLIMITED_PAYLOAD = ServerConfig("large-payload", "max_payload: 4MB\n")

Q = connect()
H = connect(headers=True)


def _padded(before: bytes, after: bytes, size: int) -> bytes:
    """Arguments of exactly `size` bytes."""
    return before + b"x" * (size - len(before) - len(after)) + after


_CONTROL_LINE = group(
    "limits/control-line",
    script(
        "sub-at-limit",
        "4096 bytes of arguments",
        Q + b"SUB " + _padded(b"l.", b" 1", 4096) + b"\r\n",
    ),
    script(
        "sub-beyond", "one more is too many", Q + b"SUB " + _padded(b"l.", b" 1", 4097) + b"\r\n"
    ),
    script(
        "pub-at-limit",
        "4096 bytes of arguments",
        Q + b"PUB " + _padded(b"l.", b" 1", 4096) + b"\r\nx\r\n",
    ),
    script(
        "pub-beyond",
        "one more is too many",
        Q + b"PUB " + _padded(b"l.", b" 1", 4097) + b"\r\nx\r\n",
    ),
    script(
        "hpub-at-limit",
        "4096 bytes of arguments",
        H + b"HPUB " + _padded(b"l.", b" 1 1", 4096) + b"\r\nx\r\n",
    ),
    script(
        "hpub-beyond",
        "one more is too many",
        H + b"HPUB " + _padded(b"l.", b" 1 1", 4097) + b"\r\nx\r\n",
    ),
    script("unsub-at-limit", "4096 bytes of arguments", Q + b"UNSUB " + b"7" * 4096 + b"\r\n"),
    script("unsub-beyond", "one more is too many", Q + b"UNSUB " + b"7" * 4097 + b"\r\n"),
    script(
        "connect-at-limit",
        "4096 bytes of JSON",
        b"CONNECT " + _padded(b'{"verbose":false,"name":"', b'"}', 4096) + b"\r\n",
    ),
    script(
        "connect-beyond",
        "one more is too many",
        b"CONNECT " + _padded(b'{"verbose":false,"name":"', b'"}', 4097) + b"\r\n",
    ),
    script(
        "info-beyond",
        "INFO has the limit too",
        Q + b"INFO " + _padded(b'{"x":"', b'"}', 4097) + b"\r\n",
    ),
    script("err-beyond", "-ERR has the limit too", Q + b"-ERR " + b"x" * 4097 + b"\r\n"),
    script(
        "unended",
        "an unfinished line is cut at the limit",
        Q + b"SUB " + b"x" * 4098,
        quiet_after("a"),
    ),
    script("unended-below", "and waited for below it", Q + b"SUB " + b"x" * 4000, quiet_after("a")),
    script(
        "line-feed-at-limit", "with a bare LF", Q + b"SUB " + _padded(b"l.", b" 1", 4096) + b"\n"
    ),
    script(
        "trailing-blanks-count",
        "blanks after the arguments count",
        Q + b"SUB l.a 1" + b" " * 4097 + b"\r\n",
    ),
    script(
        "leading-blanks-do-not",
        "blanks before the first argument do not",
        Q + b"SUB " + b" " * 10_000 + b"l.a 1\r\n" + pub(b"l.a"),
    ),
    script(
        "leading-blanks-pub",
        "for PUB neither",
        Q + sub(b"l.a") + b"PUB " + b"\t" * 10_000 + b"l.a 0\r\n\r\n",
    ),
    script(
        "leading-blanks-connect",
        "for CONNECT neither",
        b"CONNECT " + b" " * 10_000 + b'{"verbose":false}\r\n',
    ),
    script(
        "ping-junk", "the rest of a PING line has no limit", Q + b"PING" + b" " * 10_000 + b"\r\n"
    ),
    script("pong-junk", "nor that of PONG", Q + b"PONG" + b"x" * 10_000 + b"\r\n"),
    script("ok-junk", "nor that of +OK", Q + b"+OK" + b"x" * 10_000 + b"\r\n"),
)

_PAYLOAD = group(
    "limits/payload",
    script("at-limit", "one MiB", Q + sub(b"l.big") + pub(b"l.big", b"z" * 1_048_576)),
    script(
        "beyond",
        "one byte more is refused before it is read",
        Q + b"PUB l.big 1048577\r\n",
        quiet_after("a"),
    ),
    script("beyond-with-body", "with its body sent", Q + pub(b"l.big", b"z" * 1_048_577)),
    script("nine-nines", "whatever the size", Q + b"PUB l.big 999999999\r\n", quiet_after("a")),
    script("beyond-before-connect", "before CONNECT too", b"PUB l.big 1048577\r\n"),
    script("headers-count", "headers count", H + b"HPUB l.big 4 1048577\r\n", quiet_after("a")),
    script(
        "headers-at-limit",
        "headers fill the limit",
        H + sub(b"l.big") + hpub(b"l.big", b"h" * 576, b"z" * 1_048_000),
    ),
    script(
        "headers-alone",
        "headers can be all of it",
        H + sub(b"l.big") + hpub(b"l.big", b"h" * 1_048_576),
    ),
    script(
        "order-of-checks",
        "a header beyond the total is noticed before the limit: no text",
        H + b"HPUB l.big 2000000 1048577\r\n",
    ),
    script(
        "large-to-other",
        "another connection gets it whole",
        on("b", Q + sub(b"l.big")),
        on("a", Q + pub(b"l.big", b"y" * 300_000)),
    ),
    script(
        "several-large",
        "in order",
        Q + sub(b"l.big") + b"".join(pub(b"l.big", b"%d" % i * 70_000) for i in range(5)),
    ),
)

_LARGE = group(
    "limits/large-payload",
    script("info", "INFO says so"),
    script("above-default", "3 MB pass", Q + sub(b"l.big") + pub(b"l.big", b"z" * 3_000_000)),
    config=UNLIMITED_PAYLOAD,
)

_SMALL = group(
    "limits/small",
    script("info", "INFO says so", connect(protocol=1)),
    script("payload-at-limit", "16 bytes", Q + sub(b"l.a") + pub(b"l.a", b"x" * 16)),
    script("payload-beyond", "17 bytes", Q + sub(b"l.a") + pub(b"l.a", b"x" * 17)),
    script("payload-beyond-verbose", "without +OK", connect(verbose=True) + pub(b"l.a", b"x" * 17)),
    script(
        "payload-beyond-pedantic",
        "before the subject is looked at",
        connect(pedantic=True) + pub(b"l.*", b"x" * 17),
    ),
    script("headers-beyond", "headers count", H + hpub(b"l.a", b"x" * 10, b"y" * 7)),
    script(
        "messages-before",
        "what came before is answered",
        Q + sub(b"l.a") + pub(b"l.a", b"1") + pub(b"l.a", b"x" * 17),
    ),
    script("line-at-limit", "128 bytes", Q + b"SUB " + _padded(b"l.", b" 1", 128) + b"\r\n"),
    script("line-beyond", "129 bytes", Q + b"SUB " + _padded(b"l.", b" 1", 129) + b"\r\n"),
    script("connect-beyond", "CONNECT too", connect(name="x" * 129)),
    config=SMALL,
)

_SUBSCRIPTIONS = group(
    "limits/subscriptions",
    script(
        "at-limit",
        "three are taken",
        connect(verbose=True) + sub(b"l.a", b"1") + sub(b"l.b", b"2") + sub(b"l.c", b"3"),
    ),
    script(
        "beyond",
        "the fourth is refused, the connection stays",
        connect(verbose=True)
        + sub(b"l.a", b"1")
        + sub(b"l.b", b"2")
        + sub(b"l.c", b"3")
        + sub(b"l.d", b"4")
        + pub(b"l.d")
        + pub(b"l.c"),
    ),
    script(
        "used-sid",
        "even with a sid in use",
        Q + sub(b"l.a", b"1") + sub(b"l.b", b"2") + sub(b"l.c", b"3") + sub(b"l.c", b"3"),
    ),
    script(
        "after-unsub",
        "there is room again",
        Q
        + sub(b"l.a", b"1")
        + sub(b"l.b", b"2")
        + sub(b"l.c", b"3")
        + b"UNSUB 2\r\n"
        + sub(b"l.d", b"4")
        + pub(b"l.d"),
    ),
    script(
        "after-refusal",
        "a refused subject takes no room",
        Q
        + sub(b"l..a", b"1")
        + sub(b"l.a", b"1")
        + sub(b"l.b", b"2")
        + sub(b"l.c", b"3")
        + pub(b"l.c"),
    ),
    script(
        "invalid-beyond",
        "the limit is noticed before the subject",
        Q + sub(b"l.a", b"1") + sub(b"l.b", b"2") + sub(b"l.c", b"3") + sub(b"l..d", b"4"),
    ),
    script(
        "per-connection",
        "each connection has its own",
        on("a", Q + sub(b"l.a", b"1") + sub(b"l.b", b"2") + sub(b"l.c", b"3")),
        on("b", Q + sub(b"l.a", b"1")),
        on("a", pub(b"l.a", b"x")),
    ),
    script(
        "repeated-connect",
        "a second CONNECT frees them",
        Q
        + sub(b"l.a", b"1")
        + sub(b"l.b", b"2")
        + sub(b"l.c", b"3")
        + Q
        + sub(b"l.d", b"4")
        + pub(b"l.d"),
    ),
    config=SUBSCRIPTIONS,
)

_TOKENS = group(
    "limits/tokens",
    script("at-limit", "three tokens", connect(verbose=True) + sub(b"l.a.b")),
    script("beyond", "four tokens", connect(verbose=True) + sub(b"l.a.b.c")),
    script(
        "wildcards",
        "wildcards are tokens",
        Q + sub(b"l.*.>") + sub(b"l.*.*.>", b"2") + pub(b"l.a.b.c"),
    ),
    script("queue", "the text does not name the queue group", Q + sub(b"l.a.b.c", queue=b"q")),
    script("publish", "publishing has no such limit", Q + sub(b"l.>") + pub(b"l.a.b.c.d")),
    config=TOKENS,
)

_CONNECTIONS: tuple[Script, ...] = group(
    "limits/connections",
    script(
        "third",
        "INFO, the text, the end",
        on("a", Q),
        on("b", Q),
        Open("c"),
        AwaitClose("c"),
        on("a", b"PING\r\n"),
    ),
    config=CONNECTIONS,
) + group(
    "limits/no-connections",
    script("first", "zero means none", Open("a"), AwaitClose("a")),
    config=NO_CONNECTIONS,
)

_HALF_CLOSE = group(
    "limits/half-close",
    script(
        "answers-first",
        "what was sent before the end of the stream is acted upon",
        Q + sub(b"l.a") + pub(b"l.a", b"x") * 50 + b"PING\r\n",
        final_ping=False,
    ),
    script(
        "large-answer",
        "all of it is flushed",
        Q + sub(b"l.a") + pub(b"l.a", b"z" * 1_000_000) * 3,
        final_ping=False,
    ),
    script("at-once", "nothing sent, nothing but INFO", final_ping=False),
    script(
        "mid-frame",
        "an unfinished frame is forgotten",
        unsynced("a", Q + b"PUB l.a 10\r\nabc"),
        final_ping=False,
    ),
)

SCRIPTS = (
    *_CONTROL_LINE,
    *_PAYLOAD,
    *_LARGE,
    *_SMALL,
    *_SUBSCRIPTIONS,
    *_TOKENS,
    *_CONNECTIONS,
    *_HALF_CLOSE,
)
