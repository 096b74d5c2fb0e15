"""Verbs, separators and line ends: what the parser takes and what ends the connection."""

from tests.differential.script import (
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

Q = connect()
H = connect(headers=True)
V = connect(verbose=True)

_HDR = b"NATS/1.0\r\nA: b\r\n\r\n"

_LINES = group(
    "lines",
    script("ping", "PING is answered by PONG", Q + b"PING\r\n"),
    script("ping-mixed-case", "verbs are matched in any case", Q + b"pInG\r\nping\r\n"),
    script("ping-junk", "the rest of a PING line is ignored", Q + b"PINGxyz\r\n"),
    script("ping-argument", "the rest of a PING line is ignored", Q + b"PING 1 2\r\n"),
    script("ping-carriage-return", "a CR inside does not end it", Q + b"PING\rPING\r\n"),
    script("ping-bare-line-feed", "a bare LF does", Q + b"PING\nPING\n"),
    script("ping-cut", "an unfinished PING waits", Q + b"PIN"),
    script("ping-cut-quiet", "and gets no answer", Q + b"PIN", quiet_after("a")),
    script("ping-unended-quiet", "a line needs its end", Q + b"PING\r", quiet_after("a")),
    script("ping-misspelt", "PIMG is unknown", Q + b"PIMG\r\n"),
    script("pong", "an unasked PONG is fine", Q + b"PONG\r\nPONG\r\n"),
    script("pong-junk", "the rest of a PONG line is ignored", Q + b"pongxyz 1\r\n"),
    script("pong-verbose", "PONG gets no +OK", V + b"PONG\r\n"),
    script("ok", "+OK from a client is ignored", Q + b"+OK\r\n"),
    script("ok-junk", "so is the rest of its line", Q + b"+OKAY then\r\n"),
    script("ok-lower-case", "and its case", Q + b"+ok\r\n"),
    script("ok-cut", "+O is unknown", Q + b"+O\r\n"),
    script("ok-verbose", "+OK is not confirmed", V + b"+OK\r\n"),
    script("err", "-ERR from a client closes without a word", Q + b"-ERR 'x'\r\n"),
    script("err-unquoted", "quoted or not", Q + b"-ERR x\r\n"),
    script("err-lower-case", "in any case", Q + b"-err x\r\n"),
    script("err-bare", "without text it is unknown", Q + b"-ERR\r\n"),
    script("err-blank", "with an empty text it closes without a word", Q + b"-ERR \r\n"),
    script("info", "INFO from a client is ignored", Q + b"INFO {}\r\n"),
    script("info-fields", "whatever it says", Q + b'INFO {"server_id":"X","max_payload":1}\r\n'),
    script("info-verbose", "and not confirmed", V + b"INFO {}\r\n"),
    script("info-array", "if it is no object, it closes without a word", Q + b"INFO []\r\n"),
    script("info-bad-json", "bad JSON closes without a word", Q + b"INFO {\r\n"),
    script("info-text", "text is bad JSON", Q + b"INFO x\r\n"),
    script("info-bare", "nothing is bad JSON", Q + b"INFO\r\n"),
    script("info-bare-blank", "nothing is bad JSON", Q + b"INFO \r\n"),
    script("info-no-blank", "the blank may be missing", Q + b"INFO{}\r\n"),
    script("info-before-connect", "also before CONNECT", b"INFO {}\r\n"),
    script("empty-line", "an empty line is unknown", Q + b"\r\n"),
    script("empty-line-feed", "a bare LF is unknown", Q + b"\n"),
    script("leading-blank", "nothing precedes a verb", Q + b" PING\r\n"),
    script("leading-tab", "nothing precedes a verb", Q + b"\tPING\r\n"),
    script("leading-carriage-return", "nothing precedes a verb", Q + b"\rPING\r\n"),
    script("leading-nul", "nothing precedes a verb", Q + b"\x00PING\r\n"),
    script("empty-line-before-connect", "before CONNECT too", b"\r\nPING\r\n"),
    script("unknown-verb", "FOO is unknown", Q + b"FOO\r\n"),
    script("unknown-first-letter", "at its first letter", Q + b"X", quiet_after("a")),
    script("unknown-second-letter", "or at the second", Q + b"PX", quiet_after("a")),
    script("high-bytes", "bytes above 127 are unknown", Q + b"\xff\xfe\r\n"),
    script("http-get", "HTTP is unknown", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    script("http-post", "POST starts like PONG", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"),
    script("http-put", "PUT starts like PUB", b"PUT / HTTP/1.1\r\n\r\n"),
    script("http-head", "HEAD starts like HPUB", b"HEAD / HTTP/1.1\r\n\r\n"),
    script("http-connect", "CONNECT for a proxy is bad JSON", b"CONNECT x:1 HTTP/1.1\r\n\r\n"),
    script("http-options", "OPTIONS is unknown", b"OPTIONS * HTTP/1.1\r\n\r\n"),
    script(
        "tls-hello", "TLS on the plain port is unknown", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"
    ),
    script("msg", "MSG is the server's", Q + b"MSG a 1 2\r\nhi\r\n"),
    script("hmsg", "HMSG is the server's", Q + b"HMSG a 1 2 2\r\nhi\r\n"),
    script("rmsg", "RMSG is for routes", Q + b"RMSG $G a 2\r\nhi\r\n"),
    script("lmsg", "LMSG is for leaf nodes", Q + b"LMSG a 2\r\nhi\r\n"),
    script("rs-plus", "RS+ is for routes", Q + b"RS+ $G a\r\n"),
    script("rs-minus", "RS- is for routes", Q + b"RS- $G a\r\n"),
    script("ls-plus", "LS+ is for leaf nodes", Q + b"LS+ a\r\n"),
    script("ls-minus", "LS- is for leaf nodes", Q + b"LS- a\r\n"),
    script("a-plus", "A+ is for gateways", Q + b"A+ $G\r\n"),
    script("a-minus", "A- is for gateways", Q + b"A- $G\r\n"),
    script("server-verb-before-connect", "also before CONNECT", b"MSG a 1 2\r\nhi\r\n"),
)

_SUB = group(
    "sub",
    script("two-arguments", "subject and sid", V + b"SUB s.a 1\r\nPUB s.a 1\r\nx\r\n"),
    script("three-arguments", "subject, queue and sid", V + b"SUB s.a q 1\r\nPUB s.a 1\r\nx\r\n"),
    script("lower-case", "verbs are matched in any case", Q + b"sub s.a 1\r\npub s.a 1\r\nx\r\n"),
    script("no-arguments", "closes without a word", Q + b"SUB \r\n"),
    script("verb-alone", "no blank: unknown", Q + b"SUB\r\n"),
    script("joined", "SUBs is unknown", Q + b"SUBs.a 1\r\n"),
    script("one-argument", "closes without a word", Q + b"SUB s.a\r\n"),
    script("four-arguments", "closes without a word", Q + b"SUB s.a q 1 2\r\n"),
    script("tabs", "a TAB separates", Q + b"SUB\ts.a\t1\r\nPUB\ts.a\t1\r\nx\r\n"),
    script("many-separators", "as do many", Q + b"SUB \t s.a \t\t 1 \t\r\nPUB s.a 1\r\nx\r\n"),
    script("carriage-return", "a stray CR separates", Q + b"SUB s.a\r1\r\nPUB s.a 1\r\nx\r\n"),
    script("carriage-return-queue", "likewise", Q + b"SUB s.a\r q 1\r\nPUB s.a 1\r\nx\r\n"),
    script("two-carriage-returns", "at the end too", Q + b"SUB s.a 1\r\r\nPUB s.a 1\r\nx\r\n"),
    script("bare-line-feed", "ends the line", Q + b"SUB s.a 1\nPUB s.a 1\r\nx\r\n"),
    script("vertical-tab", "is no separator", Q + b"SUB s.a\x0b1\r\n"),
    script("form-feed", "is no separator", Q + b"SUB s.a\x0c1\r\n"),
    script("no-break-space", "is no separator", Q + b"SUB s.a\xc2\xa01\r\n"),
    script("sid-text", "a sid is any bytes", Q + b"SUB s.a my-sid\r\nPUB s.a 1\r\nx\r\n"),
    script("sid-long", "of any length", Q + b"SUB s.a " + b"9" * 200 + b"\r\nPUB s.a 1\r\nx\r\n"),
    script("sid-latin-1", "of any value", Q + b"SUB s.a \xe9\xff\r\nPUB s.a 1\r\nx\r\n"),
    script("sid-nul", "of any value", Q + b"SUB s.a \x00\r\nPUB s.a 1\r\nx\r\n"),
    script("sid-negative", "it is no number", Q + b"SUB s.a -1\r\nPUB s.a 1\r\nx\r\n"),
    script("sid-zero", "nor is 0 special", Q + b"SUB s.a 0\r\nPUB s.a 1\r\nx\r\n"),
    script(
        "sid-leading-zero",
        "01 is not 1",
        Q + b"SUB s.a 1\r\nSUB s.a 01\r\nUNSUB 1\r\nPUB s.a 1\r\nx\r\n",
    ),
    script(
        "duplicate-sid",
        "is ignored but confirmed",
        V + sub(b"s.a") + sub(b"s.b") + pub(b"s.b") + pub(b"s.a"),
    ),
    script(
        "duplicate-sid-queue",
        "whatever its queue",
        Q + sub(b"s.a") + sub(b"s.a", queue=b"q") + pub(b"s.a"),
    ),
    script("unended", "waits for its end", Q + b"SUB s.a 1", quiet_after("a")),
)

_UNSUB = group(
    "unsub",
    script("known-sid", "is removed", V + sub(b"u.a") + b"UNSUB 1\r\n" + pub(b"u.a")),
    script("unknown-sid", "is no error", V + b"UNSUB 77\r\n"),
    script(
        "lower-case",
        "verbs are matched in any case",
        Q + sub(b"u.a") + b"unsub 1\r\n" + pub(b"u.a"),
    ),
    script("verb-alone", "no blank: unknown", Q + b"UNSUB\r\n"),
    script("no-arguments", "closes without a word", Q + b"UNSUB \r\n"),
    script("three-arguments", "closes without a word", Q + b"UNSUB 1 2 3\r\n"),
    script("joined", "UNSUB1 is unknown", Q + b"UNSUB1\r\n"),
    script("tabs", "a TAB separates", Q + sub(b"u.a") + b"UNSUB\t1\t\r\n" + pub(b"u.a")),
    script(
        "carriage-return",
        "a stray CR separates",
        Q + sub(b"u.a") + b"UNSUB 1\r1\r\n" + pub(b"u.a") * 2,
    ),
    script("bare-line-feed", "ends the line", Q + sub(b"u.a") + b"UNSUB 1\n" + pub(b"u.a")),
    script("twice", "is no error", V + sub(b"u.a") + b"UNSUB 1\r\nUNSUB 1\r\n"),
    script(
        "other-connection",
        "sids belong to a connection",
        on("a", Q + sub(b"u.b")),
        on("b", Q + b"UNSUB 1\r\n" + pub(b"u.b")),
    ),
    script(
        "reused-sid",
        "a sid is free again",
        Q + sub(b"u.a") + b"UNSUB 1\r\n" + sub(b"u.b") + pub(b"u.a") + pub(b"u.b"),
    ),
)

_PUB = group(
    "pub",
    script("to-oneself", "echo is the default", Q + sub(b"p.a") + pub(b"p.a", b"hello")),
    script(
        "with-reply", "the reply subject is handed on", Q + sub(b"p.a") + pub(b"p.a", b"x", b"r.1")
    ),
    script("empty-payload", "has its own line end", Q + sub(b"p.a") + pub(b"p.a")),
    script("lower-case", "verbs are matched in any case", Q + sub(b"p.a") + b"pUb p.a 1\r\nx\r\n"),
    script("verbose", "+OK comes before the own message", V + sub(b"p.a") + pub(b"p.a", b"x")),
    script("no-interest", "is no error", V + pub(b"p.none", b"x")),
    script(
        "many", "in order", Q + sub(b"p.a") + b"".join(pub(b"p.a", b"%d" % i) for i in range(200))
    ),
    script("binary-payload", "is not looked at", Q + sub(b"p.a") + pub(b"p.a", bytes(range(256)))),
    script(
        "payload-like-protocol",
        "is not looked at",
        Q + sub(b"p.a") + pub(b"p.a", b"PING\r\n\r\nSUB x 1"),
    ),
    script("verb-alone", "no blank: unknown", Q + b"PUB\r\n"),
    script("no-arguments", "closes without a word", Q + b"PUB \r\n"),
    script("joined", "PUBp.a is unknown", Q + b"PUBp.a 1\r\nx\r\n"),
    script("one-argument", "closes without a word", Q + b"PUB p.a\r\n"),
    script("four-arguments", "closes without a word", Q + b"PUB p.a r 1 1\r\nx\r\n"),
    script("tabs", "a TAB separates", Q + sub(b"p.a") + b"PUB\tp.a\tr.1\t1\r\nx\r\n"),
    script("many-separators", "as do many", Q + sub(b"p.a") + b"PUB   p.a \t r.1   1  \r\nx\r\n"),
    script(
        "carriage-return", "a CR is part of the argument", Q + sub(b"p.a") + b"PUB p.a\r 1\r\nx\r\n"
    ),
    script("carriage-return-size", "and spoils a size", Q + b"PUB p.a 1\r\r\nx\r\n"),
    script("line-feed-line", "a bare LF ends the line", Q + sub(b"p.a") + b"PUB p.a 1\nx\r\n"),
    script("line-feed-payload", "but not the payload", Q + sub(b"p.a") + b"PUB p.a 1\r\nx\n"),
    script("payload-long", "longer than announced", Q + sub(b"p.a") + b"PUB p.a 1\r\nxyz\r\n"),
    script(
        "payload-short", "shorter than announced", Q + sub(b"p.a") + b"PUB p.a 5\r\nx\r\nPING\r\n"
    ),
    script("payload-no-end", "end missing", Q + sub(b"p.a") + b"PUB p.a 1\r\nxPING\r\n"),
    script("payload-wrong-end", "CR without LF", Q + sub(b"p.a") + b"PUB p.a 1\r\nx\rPING\r\n"),
    script(
        "payload-waits",
        "an unfinished payload waits",
        Q + sub(b"p.a") + b"PUB p.a 5\r\nxy",
        quiet_after("a"),
        b"zzz\r\n",
    ),
    script(
        "payload-end-waits",
        "as does its end",
        Q + sub(b"p.a") + b"PUB p.a 2\r\nxy\r",
        quiet_after("a"),
        b"\n",
    ),
    script(
        "payload-bad-end-early",
        "a wrong end is noticed at its first byte",
        Q + b"PUB p.a 1\r\nxy",
        quiet_after("a"),
    ),
    script(
        "payload-eof",
        "an unfinished payload at the end is dropped",
        on("b", Q + sub(b"p.a")),
        unsynced("a", Q + b"PUB p.a 5\r\nxy"),
        final_ping=False,
    ),
    script(
        "line-eof",
        "an unfinished line at the end is dropped",
        on("b", Q + sub(b"p.a")),
        unsynced("a", Q + b"PUB p.a"),
        final_ping=False,
    ),
    script(
        "pipelined",
        "a stream of everything",
        V
        + sub(b"p.a")
        + pub(b"p.a", b"1")
        + b"PING\r\n"
        + b"UNSUB 1\r\n"
        + pub(b"p.a", b"2")
        + b"PING\r\n",
    ),
)

_HPUB = group(
    "hpub",
    script("to-oneself", "headers come back", H + sub(b"hp.a") + hpub(b"hp.a", _HDR, b"x")),
    script("with-reply", "with a reply", H + sub(b"hp.a") + hpub(b"hp.a", _HDR, b"x", b"r.1")),
    script("no-payload", "headers alone", H + sub(b"hp.a") + hpub(b"hp.a", _HDR)),
    script(
        "lower-case",
        "verbs are matched in any case",
        H + sub(b"hp.a") + hpub(b"hp.a", _HDR, b"x").replace(b"HPUB", b"hpub"),
    ),
    script(
        "verbose", "is confirmed", connect(headers=True, verbose=True) + hpub(b"hp.a", _HDR, b"x")
    ),
    script(
        "status-line",
        "a status is relayed",
        H + sub(b"hp.a") + hpub(b"hp.a", b"NATS/1.0 503 Text\r\n\r\n"),
    ),
    script(
        "repeated-keys",
        "keys may repeat and keep their case",
        H + sub(b"hp.a") + hpub(b"hp.a", b"NATS/1.0\r\na: 1\r\nA: 2\r\na:3\r\n\r\n", b"x"),
    ),
    script(
        "not-announced", "without headers in CONNECT it is refused", Q + hpub(b"hp.a", _HDR, b"x")
    ),
    script(
        "announced-false",
        "headers: false likewise",
        connect(headers=False) + hpub(b"hp.a", _HDR, b"x"),
    ),
    script(
        "stripped",
        "who has no headers gets the payload",
        on("b", Q + sub(b"hp.a")),
        on("a", H + hpub(b"hp.a", _HDR, b"body")),
    ),
    script(
        "stripped-reply",
        "with the reply subject",
        on("b", Q + sub(b"hp.a")),
        on("a", H + hpub(b"hp.a", _HDR, b"body", b"r.1")),
    ),
    script(
        "stripped-empty",
        "even if nothing is left",
        on("b", Q + sub(b"hp.a")),
        on("a", H + hpub(b"hp.a", _HDR)),
    ),
    script(
        "mixed-receivers",
        "each gets its form",
        on("b", Q + sub(b"hp.a")),
        on("c", H + sub(b"hp.a")),
        on("a", H + hpub(b"hp.a", _HDR, b"body")),
    ),
    script(
        "zero-header",
        "no header at all makes it a MSG",
        H + sub(b"hp.a") + b"HPUB hp.a 0 2\r\nhi\r\n",
    ),
    script("zero-zero", "nothing at all likewise", H + sub(b"hp.a") + b"HPUB hp.a 0 0\r\n\r\n"),
    script(
        "no-version",
        "the block is not validated",
        H + sub(b"hp.a") + hpub(b"hp.a", b"garbage", b"x"),
    ),
    script(
        "no-blank-line",
        "the block is not validated",
        H + sub(b"hp.a") + hpub(b"hp.a", b"NATS/1.0\r\nA: b", b"x"),
    ),
    script(
        "binary-block",
        "the block is not validated",
        H + sub(b"hp.a") + hpub(b"hp.a", bytes(range(256)), b"x"),
    ),
    script(
        "one-byte-block",
        "the block is not validated",
        H + sub(b"hp.a") + hpub(b"hp.a", b"\n", b"x"),
    ),
    script("header-beyond-total", "closes without a word", H + b"HPUB hp.a 5 4\r\nabcd\r\n"),
    script(
        "sizes-verbatim",
        "leading zeros are handed on",
        H + sub(b"hp.a") + b"HPUB hp.a 002 0004\r\nabcd\r\n",
    ),
    script("two-arguments", "closes without a word", H + b"HPUB hp.a 4\r\nabcd\r\n"),
    script("five-arguments", "closes without a word", H + b"HPUB hp.a r 1 4 4\r\nabcd\r\n"),
    script("verb-alone", "no blank: unknown", H + b"HPUB\r\n"),
    script("no-arguments", "closes without a word", H + b"HPUB \r\n"),
    script("tabs", "a TAB separates", H + sub(b"hp.a") + b"HPUB\thp.a\tr\t2\t4\r\nabcd\r\n"),
    script(
        "line-feed-line", "a bare LF ends the line", H + sub(b"hp.a") + b"HPUB hp.a 2 4\nabcd\r\n"
    ),
    script(
        "line-feed-payload", "but not the payload", H + sub(b"hp.a") + b"HPUB hp.a 2 4\r\nabcd\n"
    ),
    script("carriage-return-size", "a CR spoils a size", H + b"HPUB hp.a 2 4\r\r\nabcd\r\n"),
    script(
        "payload-long", "longer than announced", H + sub(b"hp.a") + b"HPUB hp.a 2 4\r\nabcdef\r\n"
    ),
    script(
        "payload-waits",
        "an unfinished block waits",
        H + sub(b"hp.a") + b"HPUB hp.a 2 4\r\na",
        quiet_after("a"),
        b"bcd\r\n",
    ),
)

SCRIPTS = (*_LINES, *_SUB, *_UNSUB, *_PUB, *_HPUB)
