"""Subjects: what may be subscribed to, what may be published to, and what matches what."""

from tests.differential.script import Script, connect, group, hpub, on, pub, script, sub

_ODD_LITERALS = {
    "comma": b"sj.a,b",
    "slash": b"sj.a/b",
    "dollar": b"$sj",
    "quotes": b'sj."q"',
    "utf-8": "sj.höhe.δ".encode(),
    "raw-bytes": b"sj.\x80\xff",
    "controls": b"sj.\x01\x1f\x7f",
    "nul": b"sj.\x00",
    "vertical-tab": b"sj.a\x0bb",
    "star-at-end": b"sj.a*",
    "star-at-start": b"sj.*a",
    "two-stars": b"sj.**",
    "chevron-at-start": b"sj.>a",
    "chevron-at-end": b"sj.a>",
    "two-chevrons": b"sj.>>",
    "star-inside": b"sj.a*b.c",
    "system": b"$SYS.sj",
    "jetstream": b"$JS.sj",
    "inbox": b"_INBOX.sj.1",
    "upper-case": b"SJ.A",
}

_INVALID = {
    "empty-token": b"sj..b",
    "leading-dot": b".sj",
    "trailing-dot": b"sj.",
    "dot": b".",
    "two-dots": b"..",
    "chevron-first": b">.sj",
    "chevron-inside": b"sj.>.b",
    "chevron-then-dot": b"sj.>.",
    "star-then-dot": b"sj.*.",
}

_MATCHES = {
    "star": (b"m.*", (b"m", b"m.a", b"m.a.b", b"M.a")),
    "star-first": (b"*.m", (b"m", b"a.m", b"a.b.m", b"a.M")),
    "star-inside": (b"m.*.z", (b"m.z", b"m.a.z", b"m.a.b.z", b"m.a.zz")),
    "star-alone": (b"*", (b"solo", b"solo.a")),
    "stars": (b"m.*.*", (b"m.a", b"m.a.b", b"m.a.b.c")),
    "chevron": (b"m.>", (b"m", b"m.a", b"m.a.b.c.d.e.f")),
    "chevron-alone": (b">", (b"m", b"m.a.b")),
    "star-chevron": (b"*.>", (b"m", b"m.a", b"m.a.b")),
    "star-inside-chevron": (b"m.*.>", (b"m.a", b"m.a.b", b"m.a.b.c")),
    "literal": (b"m.lit", (b"m.lit", b"m.Lit", b"m.li", b"m.litt", b"m.lit.a")),
    "odd-literal-is-no-wildcard": (b"m.a*", (b"m.ab", b"m.a", b"m.a*")),
    "odd-chevron-is-no-wildcard": (b"m.>a", (b"m.b.a", b"m.>a")),
    "prefix-is-no-match": (b"m.abc.d", (b"m.ab.d", b"m.abc.d", b"m.abcd.d")),
    "published-star": (b"m.*", (b"m.*", b"m.>")),
    "published-chevron": (b"m.>", (b"m.>", b"m.*.>", b"m.>.b")),
    "published-star-is-literal": (b"m.a", (b"m.*", b"m.>", b"*.a", b">")),
    "published-empty-token": (b"m.>", (b"m..b", b"m.", b".m", b"m.a..", b"m.a.b")),
    "published-empty-token-star": (b"m.*.b", (b"m..b", b"m.a.b")),
}


def _literal(name: str, subject: bytes) -> Script:
    why = "any bytes but blanks and dots make a token"
    verbose = connect(verbose=True, pedantic=True)
    return script(name, why, verbose + sub(subject) + pub(subject, b"x"))


def _refused(name: str, subject: bytes) -> Script:
    why = "SUB answers Invalid Subject and the connection stays"
    return script(name, why, connect(verbose=True) + sub(subject) + sub(subject, b"2", b"q"))


def _published(name: str, subject: bytes) -> Script:
    why = "PUB of such a subject is no error, and matches as a literal if at all"
    return script(name, why, connect() + sub(b"sj.>") + pub(subject, b"x"))


def _pedantic(name: str, subject: bytes) -> Script:
    why = "a pedantic client is told"
    lines = connect(verbose=True, pedantic=True) + sub(b"sj.>") + pub(subject, b"x")
    return script(name, why, lines)


def _matched(name: str, pattern: bytes, subjects: tuple[bytes, ...]) -> Script:
    why = f"what {pattern.decode()} matches"
    sent = b"".join(pub(subject, subject) for subject in subjects)
    return script(name, why, connect() + sub(pattern) + sent)


def _matched_in_queue(name: str, pattern: bytes, subjects: tuple[bytes, ...]) -> Script:
    why = f"what {pattern.decode()} matches with a queue group"
    sent = b"".join(pub(subject, subject) for subject in subjects)
    return script(name, why, connect() + sub(pattern, queue=b"g") + sent)


_DEEP = b".".join([b"d"] * 1500)
_NON_LITERAL = {"star": b"sj.*", "chevron": b"sj.>", "star-first": b"*.sj", "chevron-alone": b">"}

SCRIPTS = (
    *group("subjects/literal", *(_literal(*each) for each in _ODD_LITERALS.items())),
    *group("subjects/refused", *(_refused(*each) for each in _INVALID.items())),
    *group("subjects/published", *(_published(*e) for e in (_INVALID | _NON_LITERAL).items())),
    *group("subjects/pedantic", *(_pedantic(*e) for e in (_INVALID | _NON_LITERAL).items())),
    *group("subjects/match", *(_matched(n, *each) for n, each in _MATCHES.items())),
    *group("subjects/match-queue", *(_matched_in_queue(n, *each) for n, each in _MATCHES.items())),
    *group(
        "subjects",
        script(
            "refused-not-verbose",
            "Invalid Subject is sent whether verbose, pedantic or not",
            connect() + sub(b"sj..b") + sub(b"sj.ok") + pub(b"sj.ok", b"x"),
        ),
        script(
            "refused-sid-stays-free",
            "the sid of a refused subscription can be used",
            connect() + sub(b"sj..b") + sub(b"sj.ok") + pub(b"sj.ok", b"x"),
        ),
        script("deep", "1500 tokens", connect() + sub(_DEEP) + pub(_DEEP, b"x")),
        script(
            "deep-chevron",
            "1500 tokens under a wildcard",
            connect() + sub(b"d.>") + pub(_DEEP, b"x"),
        ),
        script(
            "deep-stars",
            "1500 stars",
            connect() + sub(b".".join([b"*"] * 1500)) + pub(_DEEP, b"x") + pub(b"d." + _DEEP),
        ),
        script(
            "reply-not-checked",
            "a reply subject may be anything",
            connect() + sub(b"sj.r") + pub(b"sj.r", reply=b"r.*") + pub(b"sj.r", reply=b"r..x"),
        ),
        script(
            "reply-not-checked-pedantic",
            "for pedantic clients too",
            connect(pedantic=True)
            + sub(b"sj.r")
            + pub(b"sj.r", reply=b">")
            + pub(b"sj.r", reply=b"."),
        ),
        script(
            "pedantic-headers",
            "HPUB's subject is checked as PUB's",
            connect(pedantic=True, headers=True)
            + sub(b"sj.>")
            + hpub(b"sj.*", b"NATS/1.0\r\n\r\n", b"x"),
        ),
        script(
            "queue-any-bytes",
            "queue names are free bytes",
            connect() + sub(b"sj.q", b"1", b"\xff.*>\x00") + pub(b"sj.q", b"x"),
        ),
        script(
            "queue-reserved",
            "except one",
            connect(verbose=True) + sub(b"sj.q", b"1", b"_sys_") + pub(b"sj.q", b"x"),
        ),
        script(
            "case-sensitive",
            "subjects compare bytewise",
            connect() + sub(b"sj.Case") + pub(b"sj.case", b"1") + pub(b"sj.Case", b"2"),
        ),
        script(
            "reserved-reply-service",
            "reply subjects of the server's own are refused",
            connect() + sub(b"sj.z") + pub(b"sj.z", b"x", b"_R_.a.b"),
        ),
        script(
            "reserved-reply-gateway",
            "likewise",
            connect() + sub(b"sj.z") + pub(b"sj.z", b"x", b"_GR_.a.b"),
        ),
        script(
            "reserved-reply-ack",
            "likewise",
            connect() + sub(b"sj.z") + pub(b"sj.z", b"x", b"$JS.ACK.a.b"),
        ),
        script(
            "reserved-reply-verbose",
            "and not confirmed",
            connect(verbose=True) + sub(b"sj.z") + pub(b"sj.z", b"x", b"_R_.a.b"),
        ),
        script(
            "reserved-reply-odd",
            "the text shows the reply escaped",
            connect() + pub(b"sj.z", b"x", b'_R_."\\\x01\xff\xc3\xa4'),
        ),
        script(
            "reserved-publish-raft",
            "nor may one publish there",
            connect(verbose=True) + sub(b">") + pub(b"$NRG.x", b"x"),
        ),
        script(
            "reserved-publish-gateway",
            "nor there",
            connect(verbose=True) + sub(b">") + pub(b"_GR_.x.y", b"x"),
        ),
        script(
            "reserved-publish-service-reply",
            "but here",
            connect(verbose=True) + sub(b"_R_.>") + pub(b"_R_.x.y", b"x"),
        ),
        script(
            "reserved-nearly",
            "what only begins like them may be published to and named as a reply",
            connect(verbose=True)
            + sub(b">")
            + b"".join(
                pub(subject, b"1") + pub(b"sj.z", b"2", subject)
                for subject in (b"_", b"$", b"_G", b"_R", b"_GR", b"$N", b"$J.x", b"$NRG", b"$JS.A")
            ),
        ),
        script(
            "system-is-ones-own",
            "$SYS subjects are ordinary in a client's account",
            on("b", connect() + sub(b"$SYS.>")),
            on("a", connect() + pub(b"$SYS.foo", b"x")),
        ),
        script(
            "jetstream-is-ones-own",
            "as are $JS ones",
            on("b", connect() + sub(b"$JS.>")),
            on("a", connect() + pub(b"$JS.API.foo", b"x")),
        ),
    ),
)
