"""Accounts: separate subject spaces, joined by exports and imports only.

Two things are left out on purpose: nats-server does not apply an account's mappings to messages
in the same read as CONNECT, nor keeps a limit that was set with UNSUB in a subscription to an
imported stream.
"""

from tests.differential.script import (
    Await,
    AwaitClose,
    HalfClose,
    Open,
    Respond,
    Script,
    ServerConfig,
    group,
    hpub,
    on,
    pub,
    script,
    sub,
)

from .auth import login

ACCOUNTS = ServerConfig(
    "accounts",
    """
accounts {
  A {
    users: [ { user: a, password: p } ]
    exports: [
      { stream: "feed.>" }
      { stream: "private.>", accounts: [B] }
      { service: "svc.echo" }
      { service: "svc.args.*" }
      { service: "svc.stream", response_type: stream }
      { service: "svc.private", accounts: [B] }
      { service: "svc.gone" }
    ]
  }
  B {
    users: [ { user: b, password: p } ]
    imports: [
      { stream: { account: A, subject: "feed.>" }, prefix: "from.a" }
      { stream: { account: A, subject: "private.one" }, to: "p.one" }
      { service: { account: A, subject: "svc.echo" }, to: "echo" }
      { service: { account: A, subject: "svc.args.*" }, to: "args.*" }
      { service: { account: A, subject: "svc.stream" } }
      { service: { account: A, subject: "svc.private" } }
      { service: { account: A, subject: "svc.gone" } }
    ]
  }
  C {
    users: [ { user: c, password: p } ]
    imports: [ { stream: { account: A, subject: "feed.news" } } ]
  }
  LIMITED {
    users: [ { user: l, password: p } ]
    limits: { max_subscriptions: 2, max_payload: 8, max_connections: 2 }
  }
}
""",
)

A = login("a", "p", headers=True)
B = login("b", "p", headers=True, no_responders=True)
C = login("c", "p", headers=True)
LIMITED = login("l", "p")

BOTH_WAYS = ServerConfig(
    "accounts-both-ways",
    """
accounts {
  A {
    users: [ { user: a, password: p } ]
    exports: [ { stream: "y.>" }, { service: "y.>" } ]
  }
  B {
    users: [ { user: b, password: p } ]
    imports: [ { stream: { account: A, subject: "y.>" } } ]
  }
  C {
    users: [ { user: c, password: p } ]
    imports: [
      { stream: { account: A, subject: "y.>" } }
      { service: { account: A, subject: "y.>" } }
    ]
  }
}
""",
)

CHAINED = ServerConfig(
    "accounts-chained",
    """
accounts {
  A {
    users: [ { user: a, password: p } ]
    exports: [ { stream: "feed.>" }, { service: "svc.>" }, { service: "mapped.*" } ]
    mappings: { "mapped.*": "new.$1" }
  }
  B {
    users: [ { user: b, password: p } ]
    exports: [ { stream: ">" }, { service: "b.>" } ]
    imports: [
      { stream: { account: A, subject: "feed.>" }, prefix: "dotted." }
      { service: { account: A, subject: "svc.>" }, to: "b.>" }
      { service: { account: A, subject: "mapped.*" } }
      { service: { account: A, subject: "svc.1" }, to: "both" }
      { service: { account: D, subject: "svc.2" }, to: "both" }
    ]
  }
  C {
    users: [ { user: c, password: p } ]
    exports: [ { service: "c.>" } ]
    imports: [
      { stream: { account: B, subject: ">" } }
      { service: { account: B, subject: "b.>" }, to: "c.>", share: true }
    ]
  }
  D {
    users: [ { user: d, password: p } ]
    exports: [ { service: "svc.2" } ]
    imports: [ { service: { account: C, subject: "c.>" }, to: "d.>" } ]
  }
}
""",
)
D = login("d", "p", headers=True, no_responders=True, name="joe", lang="py", version="1.2")

_ISOLATION = group(
    "accounts",
    script("info", "the second INFO names the account", login("b", "p", protocol=1)),
    script(
        "separate",
        "the same subject is another one elsewhere",
        on("a", A + sub(b"x")),
        on("b", B + sub(b"x")),
        on("c", C + pub(b"x", b"c")),
        on("b", pub(b"x", b"b")),
        on("a", pub(b"x", b"a")),
    ),
    script(
        "separate-wildcard",
        "even a chevron stays inside",
        on("a", A + sub(b">")),
        on("b", B + pub(b"x", b"1") + pub(b"svc.other", b"2")),
        on("a", b"PING\r\n"),
    ),
    script(
        "separate-queue",
        "queue groups are per account",
        on("a", A + sub(b"x", queue=b"q")),
        on("b", B + sub(b"x", queue=b"q")),
        on("c", A + pub(b"x", b"1") * 5),
    ),
    script(
        "no-responders-inside",
        "no one in the account: 503",
        on("a", A + sub(b"x")),
        on("b", B + sub(b"in") + pub(b"x", b"?", b"in")),
    ),
    script(
        "change-of-account",
        "a second CONNECT may change it",
        on("a", A + sub(b"x")),
        on("b", B),
        on("b", A + pub(b"x", b"1")),
    ),
    config=ACCOUNTS,
)

_BOTH_WAYS = group(
    "accounts/both-ways",
    script(
        "shown",
        "what a stream shows is no request",
        on("b", B + sub(b"y.>")),
        on("c", C + sub(b"y.>")),
        on("a", A + sub(b"y.>") + pub(b"y.a", b"1")),
    ),
    script(
        "asked",
        "no stream shows the requests to a service",
        on("a", A + sub(b"y.>")),
        on("b", B + sub(b"y.>")),
        on("c", C + sub(b"y.>") + pub(b"y.a", b"1", b"answer")),
        on("a", b"PING\r\n"),
    ),
    config=BOTH_WAYS,
)

_STREAMS = group(
    "accounts/stream",
    script(
        "prefix",
        "an imported subject gets its prefix",
        on("b", B + sub(b"from.a.feed.>")),
        on("a", A + pub(b"feed.x", b"1") + pub(b"other", b"2")),
    ),
    script(
        "prefix-only",
        "without it there is nothing",
        on("b", B + sub(b"feed.>")),
        on("a", A + pub(b"feed.x", b"1")),
    ),
    script(
        "literal",
        "for a literal subscription",
        on("b", B + sub(b"from.a.feed.x")),
        on("a", A + pub(b"feed.x", b"1") + pub(b"feed.y", b"2")),
    ),
    script(
        "wide-wildcard",
        "for wider patterns too",
        on("b", B + sub(b">")),
        on("a", A + pub(b"feed.x", b"1")),
    ),
    script(
        "star",
        "and stars",
        on("b", B + sub(b"from.*.feed.*")),
        on("a", A + pub(b"feed.x", b"1") + pub(b"feed.x.y", b"2")),
    ),
    script(
        "private",
        "a private export under another name",
        on("b", B + sub(b"p.one")),
        on("a", A + pub(b"private.one", b"1") + pub(b"private.two", b"2")),
    ),
    script(
        "same-name",
        "without prefix the name stays",
        on("c", C + sub(b"feed.*")),
        on("a", A + pub(b"feed.news", b"1") + pub(b"feed.other", b"2")),
    ),
    script(
        "several-importers",
        "each importer gets it",
        on("b", B + sub(b"from.a.feed.news")),
        on("c", C + sub(b"feed.news")),
        on("d", A + sub(b"feed.news")),
        on("a", A + pub(b"feed.news", b"1")),
    ),
    script(
        "one-way",
        "nothing flows back",
        on("a", A + sub(b"feed.>")),
        on("b", B + pub(b"from.a.feed.x", b"1")),
        on("c", C + pub(b"feed.news", b"2")),
        on("a", b"PING\r\n"),
    ),
    script(
        "queue",
        "a queue group of the importer",
        on("b", B + sub(b"from.a.feed.x", queue=b"q")),
        on("a", A + pub(b"feed.x", b"1") * 3),
    ),
    script(
        "unsub",
        "UNSUB ends it",
        on("b", B + sub(b"from.a.feed.x") + b"UNSUB 1\r\n"),
        on("a", A + pub(b"feed.x", b"1")),
    ),
    script(
        "headers",
        "headers come along",
        on("b", B + sub(b"from.a.feed.x")),
        on("a", A + hpub(b"feed.x", b"NATS/1.0\r\nK: v\r\n\r\n", b"1")),
    ),
    script(
        "reply",
        "a reply subject comes along",
        on("b", B + sub(b"from.a.feed.x")),
        on("a", A + pub(b"feed.x", b"1", b"inbox.a")),
    ),
    script(
        "leaver",
        "who leaves gets nothing",
        on("b", B + sub(b"from.a.feed.x")),
        HalfClose("b"),
        on("a", A + pub(b"feed.x", b"1")),
        on("b2", B + sub(b"from.a.feed.x")),
        on("a", pub(b"feed.x", b"2")),
    ),
    config=ACCOUNTS,
)

_ANSWER = b"PUB {reply} 6\r\nanswer\r\n"


def _service(
    name: str, why: str, exported: bytes, asked: bytes, *answers: bytes, queue: bytes = b""
) -> Script:
    return script(
        name,
        why,
        on("svc", A + sub(exported, queue=queue)),
        on("req", B + sub(b"in.*") + pub(asked, b"?", b"in.1")),
        *(Respond("svc", answer) for answer in answers),
        on("req", b"PING\r\n"),
        on("svc", b"PING\r\n"),
    )


_SERVICES = group(
    "accounts/service",
    _service("answer", "a request crosses, its answer comes back", b"svc.echo", b"echo", _ANSWER),
    _service("answer-once", "one answer only", b"svc.echo", b"echo", _ANSWER, _ANSWER),
    _service(
        "stream-answers",
        "unless the export says stream",
        b"svc.stream",
        b"svc.stream",
        _ANSWER,
        _ANSWER,
        _ANSWER,
    ),
    _service("wildcard", "tokens are carried over", b"svc.args.*", b"args.xyz", _ANSWER),
    _service("private", "for whom it is meant", b"svc.private", b"svc.private", _ANSWER),
    _service("queue", "a queue group serves", b"svc.echo", b"echo", _ANSWER, queue=b"q"),
    _service(
        "empty-answer", "an answer may be empty", b"svc.echo", b"echo", b"PUB {reply} 0\r\n\r\n"
    ),
    _service(
        "answer-with-headers",
        "or carry headers",
        b"svc.echo",
        b"echo",
        b"HPUB {reply} 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    ),
    _service("not-by-exported-name", "the importer's name counts", b"svc.echo", b"svc.echo"),
    script("no-responder", "nobody serves: 503", B + sub(b"in") + pub(b"svc.gone", b"?", b"in")),
    script(
        "no-reply",
        "a request without reply",
        on("svc", A + sub(b"svc.echo")),
        on("req", B + pub(b"echo", b"!")),
    ),
    script(
        "own-header",
        "a request's headers are kept",
        on("svc", A + sub(b"svc.echo")),
        on("req", B + sub(b"in") + hpub(b"echo", b"NATS/1.0\r\nK: v\r\n\r\n", b"?", b"in")),
        on("svc", b"PING\r\n"),
    ),
    script(
        "not-imported",
        "who does not import it gets nothing",
        on("svc", A + sub(b"svc.echo")),
        on("req", C + sub(b"in") + pub(b"echo", b"?", b"in") + pub(b"svc.echo", b"?", b"in")),
    ),
    script(
        "inside",
        "inside the account it is an ordinary request",
        on("svc", A + sub(b"svc.echo")),
        on("req", A + sub(b"in") + pub(b"svc.echo", b"?", b"in")),
        Respond("svc", _ANSWER),
        on("req", b"PING\r\n"),
    ),
    script(
        "responder-may-be-anywhere-inside",
        "two in the account: both hear it",
        on("s1", A + sub(b"svc.echo")),
        on("s2", A + sub(b"svc.*")),
        on("req", B + pub(b"echo", b"!")),
    ),
    config=ACCOUNTS,
)

_LIMITS = group(
    "accounts/limits",
    script("info", "the second INFO tells the account's payload", login("l", "p", protocol=1)),
    script(
        "payload",
        "the account's maximum holds",
        LIMITED + sub(b"x") + pub(b"x", b"8" * 8) + pub(b"x", b"9" * 9),
    ),
    script(
        "subscriptions",
        "so does its number of subscriptions",
        LIMITED + sub(b"x", b"1") + sub(b"y", b"2") + sub(b"z", b"3") + pub(b"z", b"1"),
    ),
    script(
        "subscriptions-shared",
        "all connections together or each",
        on("a", LIMITED + sub(b"x", b"1") + sub(b"y", b"2")),
        on("b", LIMITED + sub(b"z", b"1") + pub(b"z", b"1")),
    ),
    script(
        "connections",
        "and of connections",
        on("a", LIMITED),
        on("b", LIMITED),
        Open("c"),
        on("c", LIMITED),
        AwaitClose("c"),
        on("a", b"PING\r\n"),
    ),
    config=ACCOUNTS,
)

_CHAINED = group(
    "accounts/chained",
    script(
        "prefix-with-dot",
        "a prefix may end in a dot",
        on("b", B + sub(b">")),
        on("a", A + pub(b"feed.x", b"1")),
    ),
    script(
        "stream",
        "what an importer is shown it does not show on",
        on("c", C + sub(b"dotted.feed.x") + sub(b">", b"2")),
        on("b", B + sub(b"dotted.>")),
        on("a", A + pub(b"feed.x", b"1")),
        on("b", pub(b"feed.x", b"2")),
    ),
    script(
        "service",
        "a request goes through accounts, and tells the last service of the first and the one before",
        on("a", A + sub(b"svc.x")),
        on("d", D + sub(b"in") + pub(b"d.x", b"?", b"in")),
        Respond("a", _ANSWER),
        on("d", b"PING\r\n"),
    ),
    script(
        "service-shared",
        "an import may tell more of who asks",
        on("b", B + sub(b"b.x")),
        on("c", login("c", "p", name="ann", lang="go", version="2") + pub(b"c.x", b"?")),
    ),
    script(
        "service-of-two",
        "services of two accounts under one subject are both asked",
        on("a", A + sub(b"svc.1")),
        on("d", D + sub(b"svc.2")),
        on("b", B + sub(b"in") + pub(b"both", b"?", b"in")),
        Respond("a", _ANSWER),
        Respond("d", _ANSWER),
        on("b", b"PING\r\n"),
    ),
    script(
        "service-of-one-of-two",
        "503 only if neither is there",
        on("d", D + sub(b"svc.2")),
        on("b", B + sub(b"in") + pub(b"both", b"?", b"in")),
        on("d", b"UNSUB 1\r\n"),
        on("b", pub(b"both", b"?", b"in")),
    ),
    script("service-503", "nobody at the end: 503", D + sub(b"in") + pub(b"d.x", b"?", b"in")),
    script(
        "mapped",
        "an account's mappings hold for what is published in it",
        on("b", B + sub(b">")),
        on("s", A + sub(b">")),
        on("a", A + b"PING\r\n"),
        Await("a", b"PONG"),
        on("a", pub(b"mapped.x", b"1") + pub(b"mapped.x.y", b"2")),
    ),
    script(
        "service-mapped",
        "the exporter's mappings hold for requests",
        on("a", A + sub(b">")),
        on("b", B + sub(b"in") + pub(b"mapped.x", b"?", b"in")),
        Respond("a", _ANSWER),
        on("b", b"PING\r\n"),
    ),
    config=CHAINED,
)

SCRIPTS = (*_ISOLATION, *_CHAINED, *_BOTH_WAYS, *_STREAMS, *_SERVICES, *_LIMITS)
