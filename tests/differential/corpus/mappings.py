"""Subject mappings: rewritten before matching, seen by subscribers as the destination."""

from tests.differential.script import (
    Script,
    ServerConfig,
    connect,
    group,
    hpub,
    on,
    pub,
    script,
    sub,
)

from .auth import login

MAPPINGS = ServerConfig(
    "mappings",
    """
mappings = {
  plain: renamed
  "swap.*.*": "swapped.{{wildcard(2)}}.{{wildcard(1)}}"
  "old.*": "short.$1"
  "drop.*.keep.*": "kept.{{wildcard(2)}}"
  "tail.>": "deep.tail.>"
  "part.*": "parted.{{partition(4,1)}}.{{wildcard(1)}}"
  "split.*": "cut.{{splitFromLeft(1,2)}}"
  "slice.*": "slices.{{sliceFromLeft(1,2)}}"
  "left.*": "l.{{left(1,2)}}"
  "sep.*": "sp.{{split(1,-)}}"
  all.weight: [ { destination: all.of.it, weight: 100% } ]
  none.weight: [ { destination: none.x, weight: 0% } ]
  lost: [ { destination: lost, weight: 0% } ]
  chain.1: chain.2
  chain.2: chain.3
  loop.a: loop.b
  loop.b: loop.a
}
""",
)

LED_AWAY = ServerConfig(
    "mappings-led-away",
    """
mappings = { in: out, "by.*": "secret.$1", own: "_GR_.x" }
authorization { users = [
  { user: all, password: p }
  { user: out, password: p, permissions: { publish: { allow: out } } }
  { user: in, password: p, permissions: { publish: { allow: [in, own] } } }
  { user: not, password: p, permissions: { publish: { deny: ["secret.>", in] } } }
] }
""",
)

_R = connect(headers=True, no_responders=True)


def _seen(name: str, why: str, *subjects: bytes) -> Script:
    """One client hears everything; another publishes each subject."""
    sent = b"".join(pub(subject, subject) for subject in subjects)
    return script(name, why, on("all", connect() + sub(b">")), on("a", connect() + sent))


RESTRICTED = ServerConfig(
    "mappings-restricted",
    """
mappings = {
  "in.*": "out.$1"
  "lost.*": [ { destination: "lost.$1", weight: 0% } ]
}
authorization {
  users: [
    { user: source, password: p, permissions: { publish: "in.>" } }
    { user: target, password: p, permissions: { publish: "out.>" } }
    { user: denied, password: p, permissions: { publish: { deny: ["in.>", "out.no"] } } }
    { user: all, password: p }
  ]
}
""",
)

_PUBLISHES = pub(b"in.x", b"1") * 2 + pub(b"in.no", b"2") + pub(b"in.x.y", b"3") + pub(b"lost.x")


def _allowed(user: str) -> Script:
    return script(
        user,
        "what a user may publish to is what mappings make of it",
        on("all", login("all", "p") + sub(b">")),
        on("a", login(user, "p", verbose=True) + _PUBLISHES),
    )


_RESTRICTED = group(
    "mappings/restricted",
    _allowed("source"),
    _allowed("target"),
    _allowed("denied"),
    config=RESTRICTED,
)

SCRIPTS = _RESTRICTED + group(
    "mappings",
    _seen("rename", "a literal", b"plain", b"plain.x", b"renamed"),
    _seen("swap", "tokens change places", b"swap.1.2", b"swap.1", b"swap.1.2.3"),
    _seen("dollar", "the short form of a wildcard", b"old.x"),
    _seen("drop-token", "a token may be left out", b"drop.a.keep.b"),
    _seen("tail", "a chevron keeps the rest", b"tail.a", b"tail.a.b.c", b"tail"),
    _seen("partition", "a token decides the partition", *(b"part.%d" % i for i in range(20))),
    _seen("partition-text", "whatever its bytes", b"part.abc", b"part.\xff", b"part.*", b"part.>"),
    _seen("split-from-left", "a token is cut in two", b"split.abcdef", b"split.a", b"split.ab"),
    _seen("slice-from-left", "or in slices", b"slice.abcdefg", b"slice.a"),
    _seen("left", "its left side", b"left.abcdef", b"left.a"),
    _seen("split-separator", "or at a separator", b"sep.a-b-c", b"sep.-a--b-", b"sep.abc"),
    _seen("whole-weight", "a weight of all", b"all.weight"),
    _seen("no-weight", "without any weight the subject stays", b"none.weight"),
    _seen("lost", "unless it is listed with a weight of nothing itself", b"lost"),
    _seen("once", "a destination is not mapped again", b"chain.1", b"chain.2", b"chain.3"),
    _seen("no-loop", "so loops are harmless", b"loop.a", b"loop.b"),
    _seen("published-wildcard", "a published star is a literal", b"swap.*.>", b"plain", b"old.>"),
    _seen("empty-token", "an invalid subject is left alone", b"swap..x", b"old."),
    script(
        "source-is-gone",
        "the source's own subscribers hear nothing",
        connect() + sub(b"plain") + pub(b"plain", b"x"),
    ),
    script(
        "destination",
        "the destination's hear it",
        connect() + sub(b"renamed") + pub(b"plain", b"x"),
    ),
    script(
        "headers",
        "headers go along",
        connect(headers=True) + sub(b"renamed") + hpub(b"plain", b"NATS/1.0\r\n\r\n", b"x", b"r"),
    ),
    script(
        "reply-is-not-mapped",
        "a reply subject stays",
        connect() + sub(b"renamed") + pub(b"plain", b"x", b"plain"),
    ),
    script(
        "subscription-is-not-mapped",
        "nor does a subscription",
        connect() + sub(b"old.*") + pub(b"short.x", b"1") + pub(b"old.x", b"2"),
    ),
    script(
        "503",
        "no responders: the mapped subject is named",
        _R + sub(b"in") + pub(b"plain", b"?", b"in"),
    ),
    script(
        "pedantic",
        "the published subject is checked",
        connect(pedantic=True) + sub(b">") + pub(b"swap.*.1", b"x"),
    ),
    script(
        "queue",
        "queue groups see the destination",
        connect() + sub(b"renamed", queue=b"q") + pub(b"plain", b"x"),
    ),
    config=MAPPINGS,
)

SCRIPTS += group(
    "mappings-restricted",
    *(
        script(
            f"{user}-{subject.decode()}",
            "what counts is where the mapping leads",
            on("all", connect(user="all", **{"pass": "p"}) + sub(b">")),
            on("a", connect(user=user, **{"pass": "p"}) + pub(subject, b"x") * 2),
        )
        for user in ("out", "in", "not")
        for subject in (b"in", b"out", b"by.x", b"own", b"secret.x")
    ),
    config=LED_AWAY,
)
