"""A TLS port met in plain text: its INFO, and the clients that it serves."""

from tests.differential.script import (
    Await,
    AwaitClose,
    Open,
    ServerConfig,
    connect,
    group,
    pub,
    quiet_after,
    script,
    sub,
    unsynced,
)


def _config(
    name: str, inside: str = "", outside: str = "", *, timeout_s: float = 30
) -> ServerConfig:
    files = "cert_file: '@directory@/server.pem', key_file: '@directory@/server-key.pem'"
    text = f"{outside}\ntls {{ {files}, timeout: {timeout_s} {inside} }}\n"
    return ServerConfig(name, text, tls=True)


# The clients of two are silent until the server closes.
REQUIRED = _config("tls", timeout_s=0.5)
OPTIONAL = _config("tls-optional", outside="allow_non_tls: true")
VERIFIED = _config(
    "tls-verify", ", ca_file: '@directory@/authority.pem', verify: true", timeout_s=0.5
)
FIRST = _config("tls-first", ", handshake_first: true")
AUTO = _config("tls-auto", ", handshake_first: '150ms'")

_UNHEARD = Open("a", waits=False)
_INFO = Await("a", b"INFO ")

SCRIPTS = (
    *group(
        "tls/required",
        script("connect", "plain text closes without a word", connect()),
        script("ping", "whatever it is", b"PING\r\n"),
        script("http", "HTTP too", b"GET / HTTP/1.1\r\n\r\n"),
        script("silent", "who does not begin is cut off", Open("a"), AwaitClose("a")),
        config=REQUIRED,
    ),
    *group(
        "tls/optional",
        script("info", "INFO offers TLS"),
        script("plain", "plain text is served", connect(protocol=1) + b"PING\r\n"),
        script("publish", "like anybody", connect() + sub(b"t.a") + pub(b"t.a", b"x")),
        script("no-connect", "even without CONNECT", sub(b"t.a") + pub(b"t.a", b"x")),
        config=OPTIONAL,
    ),
    *group(
        "tls/verify",
        script("info", "INFO asks for a certificate", Open("a"), AwaitClose("a")),
        config=VERIFIED,
    ),
    *group(
        "tls/first",
        script("no-info", "no INFO before TLS", _UNHEARD, quiet_after("a"), final_ping=False),
        script("plain", "plain text ends it", _UNHEARD, unsynced("a", connect()), AwaitClose("a")),
        config=FIRST,
    ),
    *group(
        "tls/auto",
        script("info", "who waits gets INFO", _UNHEARD, _INFO, final_ping=False),
        script("plain", "and must still speak TLS", _UNHEARD, _INFO, connect(), AwaitClose("a")),
        config=AUTO,
    ),
)
