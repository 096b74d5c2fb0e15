"""From accept to the first PONG: INFO, CONNECT's options, CONNECT left out or repeated."""

from tests.differential.script import ServerConfig, connect, group, hpub, on, pub, script, sub

NO_HEADERS = ServerConfig("no-headers", "no_header_support: true\n")
ADVERTISE = ServerConfig("advertise", "client_advertise: 'broker.example:4333'\n")

_HDR = b"NATS/1.0\r\nA: b\r\n\r\n"

_PLAIN = group(
    "handshake",
    script("info-on-accept", "INFO comes first, unasked, and its line ends in a blank"),
    script("empty-connect", "verbose is the default", b"CONNECT {}\r\nPING\r\n"),
    script("quiet-connect", "no +OK when not verbose", connect(), b"PING\r\n"),
    script("verbose-connect", "+OK comes before PONG", connect(verbose=True), b"PING\r\n"),
    script(
        "second-info",
        "protocol 1: an INFO with connect_info follows the first PONG only",
        connect(protocol=1),
        b"PING\r\nPING\r\n",
    ),
    script("no-second-info", "protocol 0 never gets one", connect(protocol=0), b"PING\r\nPING\r\n"),
    script(
        "second-info-after-traffic",
        "it is the first PING that counts, not CONNECT",
        connect(protocol=1),
        sub(b"h.late") + pub(b"h.late", b"x"),
        b"PING\r\n",
    ),
    script(
        "second-info-for-ping-before-connect",
        "a PING before CONNECT does not announce protocol 1 yet",
        b"PING\r\n",
        connect(protocol=1),
        b"PING\r\n",
    ),
    script("protocol-2", "an unknown protocol is refused", connect(protocol=2)),
    script("protocol-negative", "an unknown protocol is refused", connect(protocol=-1)),
    script(
        "no-connect-is-verbose",
        "CONNECT may be left out: verbose, pedantic and echo hold",
        sub(b"h.a") + pub(b"h.a", b"hi"),
    ),
    script(
        "no-connect-is-pedantic",
        "without CONNECT publish subjects are checked",
        pub(b"h.*", b"hi"),
    ),
    script("no-connect-unsub", "UNSUB before CONNECT is confirmed", b"UNSUB 1\r\n"),
    script("no-connect-ping", "PING before CONNECT is answered", b"PING\r\n"),
    script("no-connect-hpub", "headers are off before CONNECT", hpub(b"h.a", _HDR, b"x")),
    script(
        "no-connect-no-hmsg",
        "who did not say headers gets the bare payload",
        on("a", sub(b"h.bare")),
        on("b", connect(headers=True) + hpub(b"h.bare", _HDR, b"x")),
    ),
    script(
        "connect-after-traffic",
        "CONNECT may come late and ends verbosity",
        sub(b"h.b"),
        connect(),
        pub(b"h.b", b"hi"),
    ),
    script(
        "repeated-connect-drops-subscriptions",
        "a second CONNECT starts the connection anew",
        connect() + sub(b"h.c") + pub(b"h.c", b"1"),
        connect() + pub(b"h.c", b"2"),
    ),
    script(
        "repeated-connect-frees-sids",
        "sids can be used again after it",
        connect() + sub(b"h.d"),
        connect() + sub(b"h.e") + pub(b"h.d", b"1") + pub(b"h.e", b"2"),
    ),
    script(
        "repeated-connect-changes-options",
        "verbosity is that of the last CONNECT",
        connect(verbose=True) + sub(b"h.f"),
        connect(verbose=False) + sub(b"h.f"),
        connect(verbose=True) + sub(b"h.f"),
    ),
    script(
        "repeated-connect-keeps-options",
        "an option that the second CONNECT leaves out keeps the first one's value",
        connect(echo=False),
        connect() + sub(b"h.k") + pub(b"h.k", b"1"),
    ),
    script(
        "repeated-connect-keeps-quiet",
        "verbose too stays as the first CONNECT set it",
        connect(),
        b"CONNECT {}\r\n" + sub(b"h.k") + pub(b"h.*", b"1"),
    ),
    script(
        "repeated-connect-second-info",
        "the INFO after the first PING comes once per connection",
        connect(protocol=1) + b"PING\r\n",
        connect(protocol=1) + b"PING\r\n",
    ),
    script(
        "repeated-connect-bad-protocol",
        "the second CONNECT is checked like the first",
        connect(),
        connect(protocol=7),
    ),
    script(
        "tls-required-by-client",
        "a client that wants TLS on a plain port is served nevertheless",
        connect(tls_required=True),
    ),
    script("account-option", "a client cannot choose its account", connect(account="B")),
    script("account-option-own", "not even the one it is in", connect(account="$G")),
    script("account-option-empty", "an empty account is none", connect(account="")),
    script("new-account-option", "nor ask for a new one", connect(new_account=True)),
    script("new-account-false", "a false new_account asks for nothing", connect(new_account=False)),
    script(
        "no-responders-without-headers",
        "503s are HMSG, so headers are needed",
        connect(no_responders=True),
    ),
    script(
        "no-responders-with-headers",
        "the right combination",
        connect(no_responders=True, headers=True),
    ),
    script(
        "credentials-not-asked-for",
        "without authentication any credentials do",
        connect(user="x", auth_token="t", **{"pass": "y"}),
    ),
    script(
        "nkey-not-asked-for",
        "nkey fields are ignored then",
        connect(nkey="UABC", sig="AAAA", jwt="e30"),
    ),
    script(
        "client-details",
        "language, version and name are free text",
        connect(lang="python", version="3", name='a "name"\r\n\x00'),
    ),
    script(
        "echo-off",
        "own messages do not come back, others do",
        on("a", connect(echo=False) + sub(b"h.g") + pub(b"h.g", b"own")),
        on("b", connect() + sub(b"h.g") + pub(b"h.g", b"other")),
    ),
    script(
        "options-apply-at-once",
        "CONNECT and HPUB may share a segment",
        connect(headers=True) + sub(b"h.i") + hpub(b"h.i", _HDR, b"x"),
    ),
    script(
        "options-do-not-apply-early",
        "HPUB right before the CONNECT that allows headers is refused",
        hpub(b"h.i", _HDR, b"x") + connect(headers=True),
    ),
)

_NO_HEADERS = group(
    "handshake/no-headers",
    script("info", "INFO says headers: false"),
    script("connect", "a client that can do headers is accepted", connect(headers=True)),
    script(
        "hpub",
        "but may not send any",
        connect(headers=True) + hpub(b"h.a", _HDR, b"x"),
    ),
    script(
        "no-responders",
        "and gets no 503",
        connect(headers=True, no_responders=True),
    ),
    config=NO_HEADERS,
)

_ADVERTISE = group(
    "handshake/advertise",
    script("info", "host and port in INFO are the advertised ones", connect(protocol=1)),
    config=ADVERTISE,
)

SCRIPTS = (*_PLAIN, *_NO_HEADERS, *_ADVERTISE)
