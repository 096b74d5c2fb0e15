"""Authentication: accepted clients, the errors of refused ones, and their time."""

from tests.differential.script import (
    Await,
    AwaitClose,
    Open,
    ServerConfig,
    connect,
    group,
    on,
    pub,
    quiet_after,
    script,
    sub,
    unsynced,
)

# A bcrypt hash of "secret" with the lowest cost, so that tests stay quick.
_BCRYPT = "$2a$04$vf1onVqh9AMncZ8.IcncG.usM03f6msQ.l752PlXZJwX7iwJzG2Ea"

PASSWORD = ServerConfig("password", "authorization { user: alice, password: secret }\n")
TOKEN = ServerConfig("token", "authorization { token: s3cr3t }\n")
BCRYPT_TOKEN = ServerConfig("bcrypt-token", f"authorization {{ token: '{_BCRYPT}' }}\n")
USERS = ServerConfig(
    "users",
    f"""
authorization {{
  users: [
    {{ user: alice, password: secret }}
    {{ user: bob, password: '{_BCRYPT}' }}
    {{ user: "carol d", password: "päss wörd" }}
    {{ user: weby, password: secret, allowed_connection_types: ["WEBSOCKET"] }}
  ]
}}
""",
)
TIMEOUT = ServerConfig(
    "auth-timeout", "authorization { user: alice, password: secret, timeout: 0.4 }\n"
)
NO_AUTH_USER = ServerConfig(
    "no-auth-user",
    """
no_auth_user: guest
authorization {
  users: [
    { user: guest, password: g, permissions: { publish: "guest.>", subscribe: "guest.>" } }
    { user: alice, password: secret }
  ]
}
""",
)
NKEY = ServerConfig(
    "nkey",
    """
authorization {
  users: [
    { nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 }
    { user: carol, password: secret }
  ]
}
""",
)

VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def login(user: str, password: str, **options: object) -> bytes:
    """A CONNECT line with credentials."""
    return connect(user=user, **{"pass": password}, **options)


ALICE = login("alice", "secret")

_PASSWORD = group(
    "auth/password",
    script("info", "INFO asks for credentials", unsynced("a", b""), final_ping=False),
    script("right", "user and password", ALICE),
    script("right-verbose", "+OK after success", login("alice", "secret", verbose=True)),
    script("right-info", "the second INFO", login("alice", "secret", protocol=1)),
    script("wrong-password", "is a violation", login("alice", "Secret")),
    script("wrong-user", "is a violation", login("Alice", "secret")),
    script("longer-password", "is a violation", login("alice", "secretx")),
    script("shorter-password", "is a violation", login("alice", "secre")),
    script("empty-password", "is a violation", login("alice", "")),
    script("no-password", "is a violation", connect(user="alice")),
    script("no-user", "is a violation", connect(**{"pass": "secret"})),
    script("no-credentials", "is a violation", connect()),
    script("empty-connect", "is a violation", b"CONNECT {}\r\n"),
    script("null-connect", "is a violation", b"CONNECT null\r\n"),
    script("token-instead", "is a violation", connect(auth_token="secret")),
    script(
        "token-besides", "a token besides does no harm", login("alice", "secret", auth_token="x")
    ),
    script("nkey-besides", "nor an nkey", login("alice", "secret", nkey="UABC", sig="x")),
    script("jwt-besides", "nor a JWT", login("alice", "secret", jwt="x.y.z")),
    script("wrong-verbose", "no +OK then", login("alice", "x", verbose=True)),
    script(
        "wrong-then-commands",
        "nothing after it is acted upon",
        login("alice", "x") + sub(b"au.a") + pub(b"au.a"),
    ),
    script(
        "right-then-commands",
        "commands may follow at once",
        ALICE + sub(b"au.a") + pub(b"au.a", b"x"),
    ),
    script(
        "account",
        "credentials give no right to choose an account",
        login("alice", "secret", account="$G"),
    ),
    script("bad-json", "closes without a word", b"CONNECT {\r\n"),
    script(
        "bad-protocol",
        "the password is looked at before the protocol number",
        login("alice", "x", protocol=9),
    ),
    script("bad-protocol-right", "which is refused after it", login("alice", "secret", protocol=9)),
    script(
        "no-responders-without-headers",
        "as are options that do not fit",
        login("alice", "secret", no_responders=True),
    ),
    script("ping-first", "CONNECT must be first", b"PING\r\n"),
    script("sub-first", "CONNECT must be first", sub(b"au.a")),
    script("pub-first", "CONNECT must be first", pub(b"au.a")),
    script("http-first", "HTTP is a violation", b"GET / HTTP/1.1\r\n\r\n"),
    script("tls-first", "a TLS hello is a violation", b"\x16\x03\x01\x02\x00\x01"),
    script("empty-line-first", "CONNECT must be first", b"\r\n"),
    script("first-byte-is-enough", "the first byte decides", b"P", quiet_after("a")),
    script("c-waits", "C may become CONNECT", b"C", quiet_after("a")),
    script("c-but-not-connect", "CFOO is unknown", b"CFOO\r\n"),
    script(
        "lower-case-connect", "verbs are matched in any case", ALICE.replace(b"CONNECT", b"connect")
    ),
    script("connect-cut", "half a CONNECT waits", ALICE[:20], quiet_after("a")),
    script(
        "connect-too-long",
        "the limit of control lines holds",
        login("alice", "secret", name="x" * 5000),
    ),
    script(
        "again-right",
        "a second CONNECT authenticates anew",
        ALICE + ALICE + sub(b"au.a") + pub(b"au.a"),
    ),
    script("again-wrong", "and can fail", ALICE + sub(b"au.a"), login("alice", "x") + pub(b"au.a")),
    script("again-none", "credentials left out are those of the first", ALICE, connect()),
    script("half-close", "leaving without CONNECT", final_ping=False),
    config=PASSWORD,
)

_TOKEN = group(
    "auth/token",
    script("right", "the token", connect(auth_token="s3cr3t")),
    script("wrong", "is a violation", connect(auth_token="S3cr3t")),
    script("empty", "is a violation", connect(auth_token="")),
    script("none", "is a violation", connect()),
    script("as-password", "the token is no password", connect(user="x", **{"pass": "s3cr3t"})),
    script("as-user", "nor a user", connect(user="s3cr3t")),
    script("user-besides", "a user besides does no harm", connect(user="x", auth_token="s3cr3t")),
    config=TOKEN,
) + group(
    "auth/bcrypt-token",
    script("right", "the text behind the hash", connect(auth_token="secret")),
    script("wrong", "is a violation", connect(auth_token="Secret")),
    script("hash-itself", "the hash is not the token", connect(auth_token=_BCRYPT)),
    config=BCRYPT_TOKEN,
)

_USERS = group(
    "auth/users",
    script("first", "a user of a list", ALICE),
    script("bcrypt", "with a hashed password", login("bob", "secret")),
    script("bcrypt-wrong", "is a violation", login("bob", "Secret")),
    script("bcrypt-empty", "is a violation", login("bob", "")),
    script("bcrypt-hash-itself", "the hash is no password", login("bob", _BCRYPT)),
    script("other-ones-password", "is a violation", login("carol d", "secret")),
    script("blanks-and-utf-8", "names and passwords are free text", login("carol d", "päss wörd")),
    script("unknown", "is a violation", login("dave", "secret")),
    script("token", "is a violation", connect(auth_token="secret")),
    script("none", "is a violation", connect()),
    script("wrong-connection-type", "a user for WebSocket only", login("weby", "secret")),
    script(
        "change-user",
        "a second CONNECT may name another",
        ALICE + sub(b"au.a"),
        login("bob", "secret") + pub(b"au.a", b"x"),
    ),
    script(
        "shared-account",
        "they share one account",
        on("a", ALICE + sub(b"au.s")),
        on("b", login("bob", "secret") + pub(b"au.s", b"x")),
    ),
    config=USERS,
)

_TIMEOUT = group(
    "auth/timeout",
    script("silent", "who says nothing is cut off", Open("a"), AwaitClose("a")),
    script("slow", "half a CONNECT does not help", ALICE[:30], AwaitClose("a")),
    script(
        "in-time",
        "who is in stays",
        ALICE,
        b"PING\r\n",
        Await("a", b"PONG\r\n"),
        quiet_after("a"),
        b"PING\r\n",
    ),
    config=TIMEOUT,
)

_NO_AUTH_USER = group(
    "auth/no-auth-user",
    script("info", "the first INFO does not ask for credentials"),
    script("no-connect", "CONNECT may be left out", sub(b"guest.a") + pub(b"guest.a", b"x")),
    script(
        "no-connect-permissions",
        "the guest's permissions hold",
        sub(b"other.a") + pub(b"other.a", b"x"),
    ),
    script(
        "no-credentials",
        "or carry none",
        connect(protocol=1) + b"PING\r\n" + sub(b"other.a") + pub(b"guest.a"),
    ),
    script("nkey", "nor is a key where none is known", connect(nkey="U") + sub(b"other.a")),
    script("empty-credentials", "empty ones are none", login("", "") + sub(b"other.a")),
    script("right", "others log in", ALICE + sub(b"other.a") + pub(b"other.a", b"x")),
    script("wrong", "wrong credentials are a violation", login("alice", "x")),
    script("wrong-guest", "also for the guest", login("guest", "x")),
    script("guest-by-name", "the guest may log in too", login("guest", "g") + sub(b"other.a")),
    script("token", "a token alone is a violation", connect(auth_token="x") + sub(b"other.a")),
    script("password-only", "as is a password", connect(**{"pass": "x"}) + sub(b"other.a")),
    script(
        "late-login",
        "a guest may log in later",
        sub(b"guest.a") + ALICE + sub(b"other.a") + pub(b"other.a", b"x"),
    ),
    script(
        "late-login-drops",
        "what the guest subscribed to ends then",
        sub(b"guest.a") + ALICE + pub(b"guest.a", b"x"),
    ),
    script(
        "late-login-permissions",
        "in both directions",
        ALICE + sub(b"other.a"),
        login("guest", "g") + pub(b"guest.a", b"x"),
        on("b", ALICE + pub(b"other.a", b"x")),
    ),
    script(
        "late-wrong-login",
        "wrong credentials end it then too",
        sub(b"guest.a") + login("alice", "x"),
    ),
    script("ping-first", "PING is answered", b"PING\r\n"),
    config=NO_AUTH_USER,
)

_PUBLIC_KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

_NKEY = group(
    "auth/nkey",
    script("info", "INFO carries a nonce", final_ping=False),
    script("no-signature", "is a violation", connect(nkey=_PUBLIC_KEY)),
    script("empty-signature", "is a violation", connect(nkey=_PUBLIC_KEY, sig="")),
    script("wrong-signature", "is a violation", connect(nkey=_PUBLIC_KEY, sig="A" * 86)),
    script("short-signature", "is a violation", connect(nkey=_PUBLIC_KEY, sig="AAAA")),
    script("not-base64", "is a violation", connect(nkey=_PUBLIC_KEY, sig="!!!!")),
    script("unknown-key", "is a violation", connect(nkey="U" + "A" * 55, sig="A" * 86)),
    script("cut-key", "is a violation", connect(nkey=_PUBLIC_KEY[:20], sig="A" * 86)),
    script("empty-key", "is a violation", connect(nkey="", sig="A" * 86)),
    script("no-key", "is a violation", connect()),
    script("password", "is a violation", login("alice", "secret")),
    script("second-info", "the nonce is told once", login("carol", "secret", protocol=1)),
    config=NKEY,
)

SCRIPTS = (*_PASSWORD, *_TOKEN, *_USERS, *_TIMEOUT, *_NO_AUTH_USER, *_NKEY)
