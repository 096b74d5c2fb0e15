"""Permissions: allow and deny, queue groups, replies; checked on SUB, PUB and delivery."""

from tests.differential.script import (
    HalfClose,
    Script,
    ServerConfig,
    group,
    hpub,
    on,
    pub,
    quiet_after,
    script,
    sub,
)

from .auth import login

_USERS = {
    "free": "",
    "both": '{ publish: ["a.*", "b"], subscribe: ["a.>", "b"] }',
    "deny": '{ publish: { deny: ["a.secret", "s.>"] }, subscribe: { deny: ["a.secret", "s.*"] } }',
    "mixed": '{ publish: { allow: "a.>", deny: "a.secret.>" },'
    ' subscribe: { allow: ["a.>", "_INBOX.>"], deny: "a.secret.>" } }',
    "pubonly": '{ publish: "a.>", subscribe: { deny: ">" } }',
    "subonly": '{ publish: { deny: ">" }, subscribe: "a.>" }',
    "queues": '{ subscribe: { allow: ["a.q workers", "a.w *", "a.v v1.>", "a.plain"],'
    ' deny: "a.x bad*" } }',
    "qdeny": '{ subscribe: { deny: ["a.q bad", "a.w *", "a.s v.>"] } }',
    "everything": '{ publish: ">", subscribe: ">" }',
    "star": '{ publish: "*", subscribe: "*.*" }',
    "replier": '{ subscribe: "svc.>", allow_responses: true }',
    "replier3": '{ subscribe: "svc.>", publish: "out.>",'
    ' allow_responses: { max: 3, expires: "1m" } }',
    "replier_short": '{ subscribe: "svc.>", allow_responses: { max: 5, expires: "1ms" } }',
    "replier_any": '{ subscribe: "svc.>", allow_responses: { max: -1, expires: "1m" } }',
    "empty": "{ publish: { allow: [] }, subscribe: { allow: [] } }",
    "import_export": '{ import: "a.>", export: "a.>" }',
}

_ENTRIES = "\n".join(
    f"    {{ user: {name}, password: p{f', permissions: {rules}' if rules else ''} }}"
    for name, rules in _USERS.items()
)
PERMISSIONS = ServerConfig("permissions", f"authorization {{\n  users: [\n{_ENTRIES}\n  ]\n}}\n")
DEFAULTS = ServerConfig(
    "default-permissions",
    """
authorization {
  default_permissions: { publish: "d.>", subscribe: ["d.>", "_INBOX.>"] }
  users: [
    { user: plain, password: p }
    { user: own, password: p, permissions: { publish: "o.>" } }
    { user: anything, password: p, permissions: {} }
  ]
}
""",
)


def _user(name: str, **options: object) -> bytes:
    return login(name, "p", **options)


FREE = _user("free")
REQUESTER = _user("free", headers=True, no_responders=True)


def _tries(name: str, why: str, user: str, *subjects: bytes) -> Script:
    """Subscribe and publish to each subject; someone unrestricted listens to everything."""
    lines = b"".join(
        sub(subject, b"%d" % i) + pub(subject, b"x") for i, subject in enumerate(subjects)
    )
    return script(
        name, why, on("all", FREE + sub(b">")), on("a", _user(user, verbose=True) + lines)
    )


_ALLOW_DENY = group(
    "permissions",
    _tries("free", "no permissions: everything", "free", b"a.b", b"x", b"*", b">"),
    _tries("allow", "only what is listed", "both", b"a.b", b"a.b.c", b"b", b"c", b"a"),
    _tries(
        "allow-wildcards", "a pattern must be covered", "both", b"a.*", b"a.>", b"*.b", b">", b"*"
    ),
    _tries("deny", "all but what is listed", "deny", b"a.b", b"a.secret", b"s.x", b"s.x.y", b"s"),
    _tries(
        "deny-wildcards",
        "a pattern that covers a denial is taken, unless it matches one when read as a literal",
        "deny",
        b"a.*",
        b">",
        b"s.*",
        b"s.>",
    ),
    _tries("mixed", "deny wins over allow", "mixed", b"a.b", b"a.secret", b"a.secret.x", b"b"),
    _tries(
        "mixed-wildcards", "for patterns too", "mixed", b"a.>", b"a.*", b"a.secret.*", b"a.secret.>"
    ),
    _tries("publish-only", "no subscription at all", "pubonly", b"a.b", b"b", b">"),
    _tries("subscribe-only", "no publishing at all", "subonly", b"a.b", b"b", b"a.>"),
    _tries("everything", "an allowed > is everything", "everything", b"a", b"a.b.c", b">"),
    _tries("star", "stars count tokens", "star", b"a", b"a.b", b"a.b.c", b"*", b"*.*", b">"),
    _tries("empty-lists", "an empty allow list allows everything", "empty", b"a", b"a.b"),
    _tries("import-export", "the names that routes use", "import_export", b"a.b", b"b"),
    _tries("invalid-subject", "permission is looked at before validity", "both", b"a..b", b"c..d"),
    _tries(
        "odd-bytes", "the text escapes them", "both", b'c."\\', b"c.\xff\x00\x07", "c.é".encode()
    ),
    script(
        "deny-at-delivery",
        "what was denied is not delivered by a pattern",
        on("a", _user("deny") + sub(b">")),
        on(
            "b",
            FREE
            + pub(b"a.b", b"1")
            + pub(b"a.secret", b"2")
            + pub(b"s.x", b"3")
            + pub(b"s.x.y", b"4"),
        ),
    ),
    script(
        "deny-at-delivery-star",
        "nor by a star",
        on("a", _user("deny") + sub(b"a.*")),
        on("b", FREE + pub(b"a.secret", b"1") + pub(b"a.b", b"2")),
    ),
    script(
        "deny-at-delivery-queue",
        "nor by a queue group",
        on("a", _user("deny") + sub(b"a.*", queue=b"q")),
        on("b", FREE + pub(b"a.secret", b"1") + pub(b"a.b", b"2")),
    ),
    script(
        "deny-in-group",
        "another member serves then",
        on("a", _user("deny") + sub(b"a.*", queue=b"q")),
        on("b", FREE + sub(b"a.*", queue=b"q")),
        on("c", FREE + pub(b"a.secret", b"x") * 20),
    ),
    script(
        "deny-below-allow",
        "with allow besides",
        on("a", _user("mixed") + sub(b"a.>")),
        on("b", FREE + pub(b"a.secret.x", b"1") + pub(b"a.secret", b"2") + pub(b"a.b", b"3")),
    ),
    script(
        "deny-own-echo",
        "for one's own messages too",
        _user("deny") + sub(b"a.*") + pub(b"a.b", b"1") + pub(b"a.secret", b"2"),
    ),
    script(
        "denied-counts-as-none",
        "a message that only the denied could get has no responder",
        on("a", _user("deny") + sub(b"a.*")),
        on("b", REQUESTER + sub(b"in") + pub(b"a.secret", b"?", b"in")),
    ),
    script(
        "denied-is-not-counted",
        "nor does it count for automatic unsubscription",
        on("a", _user("deny") + sub(b"a.*") + b"UNSUB 1 2\r\n"),
        on(
            "b",
            FREE
            + pub(b"a.secret", b"1")
            + pub(b"a.b", b"2")
            + pub(b"a.secret", b"3")
            + pub(b"a.c", b"4")
            + pub(b"a.d", b"5"),
        ),
    ),
    script(
        "denied-publish-no-503",
        "a denied request gets its error only",
        _user("both", headers=True, no_responders=True) + sub(b"a.in") + pub(b"c", b"?", b"a.in"),
    ),
    script(
        "denied-publish-pedantic",
        "order of the texts",
        _user("both", pedantic=True) + pub(b"c.*", b"x"),
    ),
    script(
        "denied-hpub",
        "for HPUB as well",
        _user("both", headers=True) + hpub(b"c", b"NATS/1.0\r\n\r\n", b"x") + b"PING\r\n",
    ),
    script(
        "denied-body-is-skipped",
        "its payload is no command",
        _user("both") + pub(b"c", b"SUB a.x 1\r\nPING") + b"PING\r\n",
    ),
    script(
        "denied-large-body",
        "a large one neither",
        _user("both") + pub(b"c", b"PING\r\n" * 20_000) + b"PING\r\n",
    ),
    script(
        "denied-sid-stays-free",
        "the sid of a denied subscription can be used",
        _user("both") + sub(b"c") + sub(b"b") + pub(b"b", b"x"),
    ),
    script(
        "denied-often", "every attempt is told", _user("both") + pub(b"c", b"x") * 4 + sub(b"c") * 3
    ),
    script(
        "published-wildcard",
        "a published star needs to be covered",
        _user("both", verbose=True) + pub(b"a.*", b"x") + pub(b"a.>", b"x") + pub(b"*", b"x"),
    ),
    script(
        "published-wildcard-denied",
        "or overlaps a denial only as itself",
        _user("deny", verbose=True) + pub(b"a.*", b"x") + pub(b"s.>", b"x") + pub(b">", b"x"),
    ),
    script(
        "reply-is-free",
        "reply subjects are not checked",
        on("b", FREE + sub(b"a.b")),
        on("a", _user("both") + pub(b"a.b", b"x", b"not.allowed")),
    ),
    script(
        "change-of-user",
        "permissions are those of the last CONNECT",
        _user("both") + sub(b"c") + FREE + sub(b"c") + pub(b"c", b"x"),
    ),
    script(
        "change-of-user-down",
        "in both directions",
        FREE + sub(b"c") + pub(b"c", b"x") + _user("both") + sub(b"c") + pub(b"c", b"x"),
    ),
    script(
        "many-subjects",
        "more subjects than any cache holds",
        _user("both")
        + b"".join(pub(b"a.%d" % i) for i in range(300))
        + b"".join(pub(b"c.%d" % i) for i in range(20))
        + b"".join(pub(b"a.%d" % i) for i in range(10)),
    ),
    config=PERMISSIONS,
)


def _queue_tries(name: str, why: str, user: str, *pairs: tuple[bytes, bytes]) -> Script:
    lines = b"".join(sub(s, b"%d" % i, queue=q) for i, (s, q) in enumerate(pairs))
    return script(name, why, _user(user, verbose=True) + lines)


_QUEUES = group(
    "permissions/queue",
    _queue_tries(
        "allowed-group",
        "one group of a subject",
        "queues",
        (b"a.q", b"workers"),
        (b"a.q", b"others"),
        (b"a.q", b""),
    ),
    _queue_tries(
        "any-group", "any group, none without one", "queues", (b"a.w", b"x"), (b"a.w", b"")
    ),
    _queue_tries(
        "group-pattern",
        "group names have tokens",
        "queues",
        (b"a.v", b"v1.a"),
        (b"a.v", b"v2.a"),
        (b"a.v", b"v1"),
        (b"a.v", b""),
    ),
    _queue_tries(
        "plain-allowed",
        "a plain permission covers groups",
        "queues",
        (b"a.plain", b""),
        (b"a.plain", b"any"),
    ),
    _queue_tries(
        "denied-group-with-allow",
        "deny beside allow",
        "queues",
        (b"a.x", b"bad1"),
        (b"a.x", b"good"),
    ),
    _queue_tries(
        "denied-group",
        "one group only",
        "qdeny",
        (b"a.q", b"bad"),
        (b"a.q", b"good"),
        (b"a.q", b""),
    ),
    _queue_tries(
        "denied-all-groups",
        "all groups, but plain",
        "qdeny",
        (b"a.w", b"x"),
        (b"a.w", b"y.z"),
        (b"a.w", b""),
    ),
    _queue_tries(
        "denied-group-pattern",
        "group names have tokens",
        "qdeny",
        (b"a.s", b"v.1"),
        (b"a.s", b"v"),
        (b"a.s", b"w.1"),
        (b"a.s", b""),
    ),
    _queue_tries("denied-subject", "the text names the group", "both", (b"c", b"g"), (b"c", b"")),
    _queue_tries("odd-group-name", "escaped", "both", (b"c", b'"\xff')),
    _queue_tries(
        "wildcard-subject",
        "patterns with groups",
        "qdeny",
        (b"a.*", b"bad"),
        (b">", b"bad"),
        (b"a.>", b"x"),
    ),
    script(
        "delivery-to-denied-group",
        "a denial by group holds at delivery",
        on("a", _user("qdeny") + sub(b"a.*", queue=b"bad")),
        on("b", FREE + pub(b"a.q", b"1") + pub(b"a.z", b"2") + pub(b"a.w", b"3")),
    ),
    script(
        "delivery-to-plain",
        "and leaves plain subscriptions alone",
        on("a", _user("qdeny") + sub(b"a.*")),
        on("b", FREE + pub(b"a.q", b"1") + pub(b"a.z", b"2")),
    ),
    config=PERMISSIONS,
)


def _served(name: str, why: str, user: str, answers: bytes, *, asks: int = 1) -> Script:
    """A requester asks `asks` times; the restricted responder then sends `answers`."""
    return script(
        name,
        why,
        on("svc", _user(user, verbose=True) + sub(b"svc.a")),
        on(
            "req",
            FREE + sub(b"in.>") + b"".join(pub(b"svc.a", b"?", b"in.%d" % i) for i in range(asks)),
        ),
        on("svc", answers),
        on("req", b"PING\r\n"),
    )


_RESPONSES = group(
    "permissions/responses",
    _served("one", "a reply is allowed once", "replier", pub(b"in.0", b"1") + pub(b"in.0", b"2")),
    _served(
        "other-subject",
        "only to the reply subject",
        "replier",
        pub(b"in.1", b"1") + pub(b"svc.a", b"2"),
    ),
    _served("none-asked", "not before one is asked", "replier", pub(b"in.9", b"1"), asks=0),
    _served(
        "each-request",
        "each request gives one",
        "replier",
        pub(b"in.0", b"1") + pub(b"in.1", b"1") + pub(b"in.0", b"2"),
        asks=2,
    ),
    _served("three", "as many as configured", "replier3", pub(b"in.0", b"x") * 5),
    _served(
        "besides-publish",
        "besides what may be published anyway",
        "replier3",
        pub(b"out.x", b"1") + pub(b"in.0", b"2") + pub(b"other", b"3"),
    ),
    _served("unlimited", "a negative maximum is none", "replier_any", pub(b"in.0", b"x") * 10),
    _served(
        "reply-with-reply", "a reply may ask in turn", "replier", pub(b"in.0", b"1", b"svc.back")
    ),
    _served("wildcard-reply", "not to a pattern", "replier", pub(b"in.*", b"1")),
    script(
        "no-publish-by-default",
        "allow_responses alone allows nothing else",
        _user("replier") + pub(b"anything", b"x"),
    ),
    script(
        "same-reply-twice",
        "the same reply subject again renews the right",
        on("svc", _user("replier") + sub(b"svc.a")),
        on("req", FREE + sub(b"in.0") + pub(b"svc.a", b"?", b"in.0")),
        on("svc", pub(b"in.0", b"1") * 2),
        on("req", pub(b"svc.a", b"?", b"in.0")),
        on("svc", pub(b"in.0", b"2") * 2),
        on("req", b"PING\r\n"),
    ),
    script(
        "requester-gone",
        "the requester need not be there",
        on("svc", _user("replier", verbose=True) + sub(b"svc.a")),
        on("req", FREE + pub(b"svc.a", b"?", b"in.0")),
        HalfClose("req"),
        on("svc", pub(b"in.0", b"1") * 2),
    ),
    script(
        "expired",
        "the right ends after a while",
        on("svc", _user("replier_short") + sub(b"svc.a")),
        on("req", FREE + sub(b"in.0") + pub(b"svc.a", b"?", b"in.0")),
        quiet_after("svc"),
        on("svc", pub(b"in.0", b"late")),
        on("req", b"PING\r\n"),
    ),
    script(
        "by-queue",
        "a queue member may reply",
        on("svc", _user("replier") + sub(b"svc.a", queue=b"q")),
        on("req", FREE + sub(b"in.0") + pub(b"svc.a", b"?", b"in.0")),
        on("svc", pub(b"in.0", b"1") * 2),
        on("req", b"PING\r\n"),
    ),
    config=PERMISSIONS,
)

_DEFAULTS = group(
    "permissions/defaults",
    script(
        "user-without",
        "defaults hold",
        _user("plain") + sub(b"d.a") + sub(b"x", b"2") + pub(b"d.a", b"1") + pub(b"x", b"2"),
    ),
    script(
        "user-with",
        "a user's own replace them whole",
        _user("own") + sub(b"x") + pub(b"d.a", b"1") + pub(b"o.a", b"2"),
    ),
    script("user-with-empty", "even empty ones", _user("anything") + sub(b"x") + pub(b"x", b"1")),
    config=DEFAULTS,
)

SCRIPTS: tuple[Script, ...] = (*_ALLOW_DENY, *_QUEUES, *_RESPONSES, *_DEFAULTS)
