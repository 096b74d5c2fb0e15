"""NATS inside WebSocket frames: the upgrade, framing, and the errors of both."""

from tests.differential.script import (
    Await,
    AwaitClose,
    Open,
    Script,
    ServerConfig,
    Signal,
    Step,
    connect,
    group,
    pub,
    sub,
    unsynced,
)
from tests.differential.script import script as _script
from tests.differential.websocket import (
    BINARY,
    CLOSE,
    COMPRESSED,
    FINAL,
    PING,
    PONG,
    TEXT,
    deflated,
    frame,
    upgrade,
)

PLAIN = ServerConfig("websocket", "websocket { listen: '127.0.0.1:-1', no_tls: true }\n")
COMPRESSING = ServerConfig(
    "websocket-compression",
    "websocket { listen: '127.0.0.1:-1', no_tls: true, compression: true }\n",
)
SAME_ORIGIN = ServerConfig(
    "websocket-same-origin",
    "websocket { listen: '127.0.0.1:-1', no_tls: true, same_origin: true }\n",
)
ORIGINS = ServerConfig(
    "websocket-origins",
    "websocket { listen: '127.0.0.1:-1', no_tls: true,"
    " allowed_origins: ['http://one.example', 'http://two.example:8080'] }\n",
)

Q = connect()
_UPGRADED = Await("a", b"\r\n\r\n")
_SERVED = Await("a", b"PONG\r\n")


def script(name: str, why: str, *steps: bytes | Step, racy_end: bool = False) -> Script:
    """A script whose first connection is to the WebSocket port."""
    whole = (unsynced("a", step) if isinstance(step, bytes) else step for step in steps)
    return _script(name, why, Open("a", "websocket"), *whole, racy_end=racy_end, final_ping=False)


def _talk(name: str, why: str, *frames: bytes) -> Script:
    """Upgrade, send frames, and see whether a PING is answered in the end."""
    return script(name, why, upgrade(), _UPGRADED, *frames, frame(b"PING\r\n"), _SERVED)


def _fatal(name: str, why: str, *frames: bytes) -> Script:
    steps: tuple[bytes | Step, ...] = (frame(Q), *frames, AwaitClose("a"))
    return script(name, why, upgrade(), _UPGRADED, *steps, racy_end=True)


def _refused(name: str, why: str, request: bytes) -> Script:
    return script(name, why, request)


_UPGRADE = (
    group(
        "websocket/upgrade",
        script("answer", "101 and INFO", upgrade(), Await("a", b"}")),
        script(
            "any-path", "the path does not matter", upgrade(b"/some/where?x=1"), Await("a", b"}")
        ),
        script(
            "header-case",
            "header names have no case",
            upgrade().replace(b"Upgrade: ", b"uPGRADE: "),
            Await("a", b"}"),
        ),
        script(
            "connection-list",
            "Connection may list more",
            upgrade(Connection=b"keep-alive, Upgrade"),
            Await("a", b"}"),
        ),
        script(
            "no-masking",
            "a client may ask not to mask",
            upgrade(extra=b"Nats-No-Masking: true\r\n"),
            Await("a", b"}"),
        ),
        script(
            "origin-free",
            "any origin by default",
            upgrade(Origin=b"http://evil.example"),
            Await("a", b"}"),
        ),
        script(
            "compression-off",
            "no compression unless configured",
            upgrade(Sec_WebSocket_Extensions=b"permessage-deflate"),
            Await("a", b"}"),
        ),
        _refused("post", "only GET", upgrade().replace(b"GET", b"POST")),
        _refused("no-upgrade", "Upgrade is needed", upgrade(Upgrade=None)),
        _refused("wrong-upgrade", "and must be websocket", upgrade(Upgrade=b"h2c")),
        _refused("no-connection", "Connection is needed", upgrade(Connection=None)),
        _refused("no-key", "a key is needed", upgrade(Sec_WebSocket_Key=None)),
        _refused("short-key", "of sixteen bytes", upgrade(Sec_WebSocket_Key=b"c2hvcnQ=")),
        _refused("no-version", "a version is needed", upgrade(Sec_WebSocket_Version=None)),
        _refused("wrong-version", "and must be 13", upgrade(Sec_WebSocket_Version=b"8")),
        config=PLAIN,
    )
    + group(
        "websocket/same-origin",
        script("none", "no origin is fine", upgrade(), Await("a", b"}")),
        _refused("other", "another one is not", upgrade(Origin=b"http://evil.example")),
        _refused(
            "other-port",
            "nor another port",
            upgrade(Origin=b"http://127.0.0.1:1", Host=b"127.0.0.1:2"),
        ),
        script(
            "same",
            "the same is",
            upgrade(Origin=b"http://127.0.0.1:7", Host=b"127.0.0.1:7"),
            Await("a", b"}"),
        ),
        config=SAME_ORIGIN,
    )
    + group(
        "websocket/origins",
        script(
            "listed", "a listed origin", upgrade(Origin=b"http://one.example"), Await("a", b"}")
        ),
        script(
            "listed-port",
            "with its port",
            upgrade(Origin=b"http://two.example:8080"),
            Await("a", b"}"),
        ),
        script("none", "no origin is fine", upgrade(), Await("a", b"}")),
        _refused("other-scheme", "not with another scheme", upgrade(Origin=b"https://one.example")),
        _refused("other-port", "not with another port", upgrade(Origin=b"http://two.example")),
        _refused("unlisted", "nor any other", upgrade(Origin=b"http://three.example")),
        config=ORIGINS,
    )
)

_FRAMES = group(
    "websocket/frames",
    _talk("binary", "a binary frame", frame(Q + sub(b"w.a") + pub(b"w.a", b"x"))),
    _talk("text", "a text frame does as well", frame(Q + sub(b"w.a") + pub(b"w.a", b"x"), TEXT)),
    _talk(
        "split-lines",
        "lines may be cut anywhere",
        frame(Q[:9]),
        frame(Q[9:] + b"SUB w.a"),
        frame(b" 1\r\n" + pub(b"w.a", b"xyz")),
    ),
    _talk(
        "fragments",
        "messages may come in fragments",
        frame(Q, flags=0),
        frame(sub(b"w.a"), 0, flags=0),
        frame(pub(b"w.a", b"x"), 0),
    ),
    _talk("empty", "a frame may be empty", frame(b""), frame(Q)),
    _talk("medium", "16-bit lengths", frame(Q + sub(b"w.a") + pub(b"w.a", b"m" * 1000))),
    _talk("large", "64-bit lengths", frame(Q + sub(b"w.a") + pub(b"w.a", b"l" * 100_000))),
    _talk("ping", "a PING frame is answered", frame(Q), frame(b"hello", PING)),
    _talk(
        "ping-between-fragments",
        "even inside a message",
        frame(Q, flags=0),
        frame(b"hello", PING),
        frame(sub(b"w.a"), 0),
    ),
    _talk("pong", "a PONG frame is ignored", frame(Q), frame(b"hello", PONG)),
    _talk("verbose", "verbose replies", frame(connect(verbose=True) + sub(b"w.a"))),
    script(
        "to-plain-client",
        "both ports share one subject space",
        upgrade(),
        _UPGRADED,
        frame(Q + sub(b"w.a") + b"PING\r\n"),
        _SERVED,
        unsynced("b", Q + pub(b"w.a", b"x") + b"PING\r\n"),
        Await("b", b"PONG\r\n"),
        frame(b"PING\r\n"),
        Await("a", b"PONG\r\n", 2),
    ),
    _fatal("unmasked", "client frames must be masked", frame(b"PONG\r\n", masked=False)),
    _fatal("reserved-bit", "no reserved bits", frame(b"PONG\r\n", flags=FINAL | 0x20)),
    _fatal(
        "compressed-unasked",
        "no compression that was not agreed",
        frame(b"PONG\r\n", flags=FINAL | COMPRESSED),
    ),
    _fatal("unknown-opcode", "no unknown opcodes", frame(b"x", 0x5)),
    _fatal("unknown-control", "nor control frames", frame(b"x", 0xB)),
    _fatal("fragmented-control", "control frames are whole", frame(b"x", PING, flags=0)),
    _fatal("long-control", "and short", frame(b"x" * 126, PING)),
    _fatal("continuation-first", "nothing to continue", frame(b"PONG\r\n", 0)),
    _fatal(
        "nested-message",
        "a message inside another",
        frame(b"PONG\r\n", flags=0),
        frame(b"PONG\r\n", BINARY),
    ),
    _fatal(
        "huge-length",
        "a length of 2**63",
        bytes([FINAL | BINARY, 0xFF]) + b"\x80" + bytes(7) + b"\x11\x22\x33\x44",
    ),
    script(
        "close",
        "a close frame is echoed",
        upgrade(),
        _UPGRADED,
        frame(Q) + frame(b"\x03\xe8bye", CLOSE),
        AwaitClose("a"),
    ),
    script(
        "close-empty",
        "also an empty one",
        upgrade(),
        _UPGRADED,
        frame(Q) + frame(b"", CLOSE),
        AwaitClose("a"),
    ),
    _fatal("close-one-byte", "also half a code", frame(b"\x03", CLOSE)),
    _fatal("unknown-verb", "protocol errors end the connection", frame(b"FOO\r\n")),
    _fatal("silent-error", "also those without text", frame(b"SUB x\r\n")),
    _fatal("payload", "too large a payload", frame(b"PUB x 2000000\r\n")),
    config=PLAIN,
) + group(
    "websocket/compression",
    script(
        "agreed",
        "compression is agreed upon",
        upgrade(Sec_WebSocket_Extensions=b"permessage-deflate"),
        _UPGRADED,
    ),
    script(
        "with-parameters",
        "with parameters",
        upgrade(
            Sec_WebSocket_Extensions=b"permessage-deflate; server_no_context_takeover;"
            b" client_no_context_takeover"
        ),
        _UPGRADED,
    ),
    script("not-asked", "not without being asked", upgrade(), Await("a", b"}")),
    script(
        "other-extension",
        "other extensions are ignored",
        upgrade(Sec_WebSocket_Extensions=b"x-unknown"),
        Await("a", b"}"),
    ),
    script(
        "compressed-frames",
        "compressed frames",
        upgrade(Sec_WebSocket_Extensions=b"permessage-deflate"),
        _UPGRADED,
        deflated(Q + sub(b"w.a") + pub(b"w.a", b"z" * 5000)),
    ),
    script(
        "garbage",
        "garbage instead of compressed data",
        upgrade(Sec_WebSocket_Extensions=b"permessage-deflate"),
        _UPGRADED,
        frame(b"\xff\xff\xff\xff", flags=FINAL | COMPRESSED),
        AwaitClose("a"),
        racy_end=True,
    ),
    config=COMPRESSING,
)


def _entry(name: str, text: str) -> ServerConfig:
    """A server whose WebSocket block is `text`, with `@more@` in front of it."""
    before, _, block = text.rpartition("@more@")
    listen = "websocket { listen: '127.0.0.1:-1', no_tls: true, " + block + " }"
    return ServerConfig(f"websocket-{name}", f"{before}\n{listen}\n")


_USERS = """authorization { users: [
  { user: alice, password: secret }
  { user: guest, password: g, permissions: { publish: "guest.>", subscribe: "guest.>" } }
  { user: web, password: w, allowed_connection_types: [WEBSOCKET] }
] }"""

_LOGINS = {
    "none": {},
    "own-user": {"user": "own", "pass": "only-here"},
    "own-user-wrong": {"user": "own", "pass": "x"},
    "own-token": {"auth_token": "own-token"},
    "shared-user": {"user": "alice", "pass": "secret"},
    "shared-user-wrong": {"user": "alice", "pass": "x"},
    "shared-token": {"auth_token": "shared-token"},
    "web-only": {"user": "web", "pass": "w"},
    "stray-password": {"pass": "only-here"},
}
"""What clients offer, whatever the server asks for."""

_ENTRIES = (
    _entry("user", "authorization { user: own, password: 'only-here' }"),
    _entry("token", "authorization { token: own-token }"),
    _entry("both", "authorization { user: own, password: 'only-here', token: own-token }"),
    _entry(
        "user-over-user",
        "authorization { user: alice, password: secret } @more@"
        "authorization { user: own, password: 'only-here' }",
    ),
    _entry(
        "token-over-token",
        "authorization { token: shared-token } @more@ authorization { token: own-token }",
    ),
    _entry(
        "user-over-token",
        "authorization { token: shared-token } @more@ authorization { user: own, password: 'only-here' }",
    ),
    _entry(
        "timeout-only",
        "authorization { user: alice, password: secret } @more@ authorization { timeout: 5 }",
    ),
    _entry("guest", _USERS + " @more@ no_auth_user: guest"),
    _entry("alice-over-guest", "no_auth_user: guest\n" + _USERS + " @more@ no_auth_user: alice"),
    _entry("inherited", "no_auth_user: guest\n" + _USERS + " @more@ same_origin: false"),
    _entry("no-guest", _USERS + " @more@ same_origin: false"),
)
"""Servers whose WebSocket listener has rules of its own, next to each kind of shared ones."""

_ACT = sub(b"guest.a") + sub(b"b", b"2") + pub(b"guest.a", b"x") + pub(b"b", b"y") + b"PING\r\n"


def _served_or_closed(name: str, why: str, *sent: bytes) -> Script:
    """What a client gets that says `sent` and then leaves."""
    return script(name, why, upgrade(), Await("a", b"}"), *(frame(one) for one in sent))


_RULES = tuple(
    each
    for config in _ENTRIES
    for each in group(
        f"websocket/rules/{config.name.removeprefix('websocket-')}",
        *(
            _served_or_closed(name, "who comes in by WebSocket", connect(**login) + _ACT)
            for name, login in _LOGINS.items()
        ),
        _served_or_closed("silent", "who comes in without CONNECT", b"PING\r\n" + _ACT),
        _script("plain-none", "the other listener keeps its own rules", unsynced("a", Q + _ACT)),
        *(
            _script(f"plain-{name}", "also for these", unsynced("a", connect(**login) + _ACT))
            for name, login in _LOGINS.items()
            if name in ("own-user", "own-token", "shared-user")
        ),
        config=config,
    )
)

_TIMES = group(
    "websocket/rules/timeout",
    script(
        "own",
        "the listener has a time-out of its own",
        upgrade(),
        _UPGRADED,
        Await("a", b"Authentication Timeout"),
        AwaitClose("a"),
        racy_end=True,
    ),
    config=_entry("timeout", "authorization { user: own, password: p, timeout: 0.3 }"),
)

_COOKIES = group(
    "websocket/cookies",
    *(
        script(
            name,
            why,
            upgrade(Cookie=cookie),
            Await("a", b"}"),
            frame(connect(**login) + _ACT),
        )
        for name, why, cookie, login in (
            ("user", "cookies stand for user and password", b"who=alice; word=secret", {}),
            ("order", "in any order, among others", b"x=1; word=secret; y=2; who=alice", {}),
            ("wrong", "wrong ones are refused", b"who=alice; word=no", {}),
            ("half", "so is half of them", b"who=alice", {}),
            ("none", "and others", b"x=y", {}),
            (
                "connect-first",
                "what CONNECT says counts",
                b"who=alice; word=no",
                {"user": "alice", "pass": "secret"},
            ),
            (
                "connect-half",
                "each for itself",
                b"who=guest; word=secret",
                {"user": "alice"},
            ),
            ("quoted", "a value may be quoted", b'who="alice"; word="secret"', {}),
            ("twice", "the last counts", b"who=guest; who=alice; word=secret", {}),
            ("case", "names have their case", b"WHO=alice; WORD=secret", {}),
        )
    ),
    config=ServerConfig(
        "websocket-cookies",
        f"{_USERS}\nwebsocket {{ listen: '127.0.0.1:-1', no_tls: true,"
        " user_cookie: who, pass_cookie: word }\n",
    ),
)

_TOKEN_COOKIE = group(
    "websocket/cookies",
    script(
        "token",
        "a cookie stands for the token",
        upgrade(Cookie=b"pass=secret"),
        Await("a", b"}"),
        frame(connect() + _ACT),
    ),
    script(
        "token-wrong",
        "a wrong one does not",
        upgrade(Cookie=b"pass=no"),
        Await("a", b"}"),
        frame(connect() + _ACT),
    ),
    config=ServerConfig(
        "websocket-token-cookie",
        "authorization { token: secret }\n"
        "websocket { listen: '127.0.0.1:-1', no_tls: true, token_cookie: pass }\n",
    ),
)

_REQUESTS = group(
    "websocket/request",
    *(
        script(name, why, upgrade(extra=b"X-Forwarded-For: " + value + b"\r\n"), Await("a", b"}"))
        for name, why, value in (
            (
                "forwarded",
                "INFO has the address of the socket, whatever a proxy says",
                b"192.0.2.7",
            ),
            ("forwarded-chain", "however many it names", b"192.0.2.7, 198.51.100.1"),
            ("forwarded-ipv6", "of either kind", b"2001:db8::7"),
            ("forwarded-nonsense", "or even nonsense", b"somewhere"),
        )
    ),
    config=PLAIN,
)

_CAPPED = group(
    "websocket/size",
    script(
        "eight-payloads",
        "a message may have eight times max_payload",
        upgrade(),
        _UPGRADED,
        frame(Q + b"PUB a 900\r\n" + bytes(900) + b"\r\n" + b"PING\r\n"),
        _SERVED,
    ),
    config=ServerConfig(
        "websocket-small",
        "max_payload: 1kb\nwebsocket { listen: '127.0.0.1:-1', no_tls: true }\n",
    ),
)

_STOPPED = group(
    "websocket/stopped",
    *(
        script(
            name.lower(),
            "a close frame says that the server goes",
            upgrade(),
            _UPGRADED,
            frame(Q + b"PING\r\n"),
            _SERVED,
            Signal(name),
            AwaitClose("a"),
            racy_end=True,
        )
        for name in ("SIGTERM", "SIGINT")
    ),
    config=ServerConfig(
        "websocket-stopped",
        "websocket { listen: '127.0.0.1:-1', no_tls: true }\n",
        disposable=True,
    ),
)

SCRIPTS = (
    *_UPGRADE,
    *_FRAMES,
    *_RULES,
    *_TIMES,
    *_COOKIES,
    *_TOKEN_COOKIE,
    *_REQUESTS,
    *_CAPPED,
    *_STOPPED,
)
