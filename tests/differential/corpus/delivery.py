"""Deliveries: overlapping subscriptions, automatic unsubscription, queue groups, 503s."""

from tests.differential.script import HalfClose, Script, connect, group, hpub, on, pub, script, sub

Q = connect()
V = connect(verbose=True)
H = connect(headers=True)
R = connect(headers=True, no_responders=True)

_HDR = b"NATS/1.0\r\nA: b\r\n\r\n"
_RANDOM_MEMBER = (
    "nats-server picks a member of a queue group at random, midge takes turns: "
    "what all members together receive is the same"
)


def unsub(sid: bytes, maximum: int | None = None) -> bytes:
    return b"UNSUB " + sid + (b"" if maximum is None else b" %d" % maximum) + b"\r\n"


_SUBSCRIPTIONS = group(
    "delivery",
    script(
        "every-sid",
        "one message per matching subscription",
        Q
        + sub(b"d.a", b"1")
        + sub(b"d.a", b"2")
        + sub(b"d.*", b"3")
        + sub(b"d.>", b"4")
        + pub(b"d.a", b"x"),
        unordered=True,
    ),
    script(
        "every-connection",
        "and connection",
        on("a", Q + sub(b"d.a")),
        on("b", Q + sub(b"d.a", b"7")),
        on("c", Q + sub(b"d.*", b"x")),
        on("d", Q + pub(b"d.a", b"1") + pub(b"d.b", b"2")),
    ),
    script(
        "order-of-subjects",
        "one publisher's order holds across subjects",
        on("a", Q + sub(b"d.>")),
        on("b", Q + b"".join(pub(b"d.%d" % (i % 7), b"%d" % i) for i in range(100))),
    ),
    script(
        "no-echo-to-own",
        "echo false: own subscriptions get nothing",
        on("a", connect(echo=False) + sub(b"d.a")),
        on("b", Q + sub(b"d.a")),
        on("a", pub(b"d.a", b"x")),
    ),
    script(
        "no-echo-not-counted",
        "and nothing is counted as delivered",
        on("a", connect(echo=False) + sub(b"d.a") + unsub(b"1", 1) + pub(b"d.a", b"own")),
        on("b", Q + pub(b"d.a", b"1") + pub(b"d.a", b"2")),
    ),
    script(
        "no-echo-wildcard",
        "whatever the pattern",
        connect(echo=False) + sub(b">") + pub(b"d.a", b"x"),
    ),
    script(
        "no-echo-queue",
        "nor by a queue group",
        connect(echo=False) + sub(b"d.a", queue=b"q") + pub(b"d.a", b"x"),
    ),
    script(
        "leaver",
        "who has gone gets nothing",
        on("a", Q + sub(b"d.a")),
        HalfClose("a"),
        on("b", Q + sub(b"d.a") + pub(b"d.a", b"x")),
    ),
    script(
        "late-subscriber",
        "nothing is kept for later",
        on("a", Q + pub(b"d.a", b"early")),
        on("b", Q + sub(b"d.a")),
        on("a", pub(b"d.a", b"late")),
    ),
    script(
        "verbose-and-messages",
        "confirmations and messages share one order",
        V
        + sub(b"d.a")
        + pub(b"d.a", b"1")
        + b"PING\r\n"
        + sub(b"d..a", b"2")
        + pub(b"d.a", b"2")
        + unsub(b"1")
        + pub(b"d.a", b"3"),
    ),
    script(
        "verbose-subscriber",
        "+OK comes for commands only",
        on("a", V + sub(b"d.a")),
        on("b", Q + pub(b"d.a", b"x") * 3),
    ),
    script(
        "subject-as-published",
        "MSG carries the published subject",
        Q + sub(b"d.*.c") + pub(b"d.b.c", b"x"),
    ),
    script(
        "reply-relayed",
        "and the reply",
        on("a", Q + sub(b"d.svc")),
        on("b", Q + sub(b"d.inbox") + pub(b"d.svc", b"?", b"d.inbox")),
        on("a", pub(b"d.inbox", b"!")),
    ),
    script(
        "headers-and-plain",
        "each receiver gets what it can read",
        on("a", H + sub(b"d.h")),
        on("b", Q + sub(b"d.h")),
        on("c", H + sub(b"d.*", b"9")),
        on("d", H + hpub(b"d.h", _HDR, b"x") + pub(b"d.h", b"y")),
    ),
    script(
        "resubscribe-other-subject",
        "a sid's subject is that of its last SUB",
        Q + sub(b"d.a") + unsub(b"1") + sub(b"d.b") + pub(b"d.a", b"1") + pub(b"d.b", b"2"),
    ),
    script(
        "many-sids",
        "fifty subscriptions of one subject",
        Q + b"".join(sub(b"d.m", b"%d" % i) for i in range(50)) + pub(b"d.m", b"x"),
        unordered=True,
    ),
    script(
        "cache-after-sub",
        "a new subscription counts at once",
        Q
        + sub(b"d.c", b"1")
        + pub(b"d.c", b"1")
        + sub(b"d.*", b"2")
        + pub(b"d.c", b"2")
        + unsub(b"1")
        + pub(b"d.c", b"3")
        + sub(b"d.>", b"3")
        + unsub(b"2")
        + pub(b"d.c", b"4"),
        unordered=True,
    ),
)


def _auto(name: str, why: str, *parts: bytes) -> Script:
    return script(name, why, Q + sub(b"d.n") + b"".join(parts))


_M = pub(b"d.n", b"x")

_AUTO_UNSUBSCRIBE = group(
    "auto-unsubscribe",
    _auto("after-one", "one more message", unsub(b"1", 1), _M * 3),
    _auto("after-two", "two more messages", unsub(b"1", 2), _M * 4),
    _auto("counts-from-the-start", "messages before UNSUB count", _M * 2, unsub(b"1", 3), _M * 3),
    _auto("reached", "a limit already reached ends it now", _M * 3, unsub(b"1", 3), _M),
    _auto("passed", "a limit already passed too", _M * 3, unsub(b"1", 2), _M),
    _auto("raise", "a second UNSUB may raise the limit", unsub(b"1", 1), unsub(b"1", 3), _M * 5),
    _auto("lower", "or lower it", unsub(b"1", 5), _M, unsub(b"1", 2), _M * 5),
    _auto(
        "lower-below", "even below what was delivered", unsub(b"1", 5), _M * 2, unsub(b"1", 1), _M
    ),
    _auto("cancel", "or end it now", unsub(b"1", 5), _M, unsub(b"1"), _M),
    _auto("zero", "zero ends it now", unsub(b"1", 5), _M, unsub(b"1", 0), _M),
    _auto(
        "duplicate-sub",
        "SUB with the live sid changes nothing",
        unsub(b"1", 2),
        sub(b"d.n"),
        _M * 4,
    ),
    _auto("sid-reused", "the sid is free afterwards", unsub(b"1", 1), _M * 2, sub(b"d.n"), _M * 2),
    _auto(
        "sid-reused-counts-anew",
        "and counts anew",
        unsub(b"1", 1),
        _M,
        sub(b"d.n"),
        unsub(b"1", 2),
        _M * 4,
    ),
    _auto(
        "unsub-after-end",
        "UNSUB of the ended sid is no error",
        unsub(b"1", 1),
        _M,
        unsub(b"1"),
        b"PING\r\n",
    ),
    script("verbose", "each UNSUB is confirmed", V + sub(b"d.n") + unsub(b"1", 1) + _M * 2),
    script(
        "other-sid-stays",
        "only that sid ends",
        Q + sub(b"d.n", b"1") + sub(b"d.n", b"2") + unsub(b"1", 1) + _M * 2,
        unordered=True,
    ),
    script(
        "wildcard",
        "all subjects count",
        Q + sub(b"d.*") + unsub(b"1", 2) + pub(b"d.x") + pub(b"d.y") + pub(b"d.z"),
    ),
    script(
        "queue-member",
        "in a queue group too",
        Q + sub(b"d.n", queue=b"q") + unsub(b"1", 2) + _M * 4,
    ),
    script(
        "queue-others-go-on",
        "the others go on",
        on("a", Q + sub(b"d.n", b"1", b"q") + unsub(b"1", 1)),
        on("b", Q + sub(b"d.n", b"1", b"q")),
        on("c", Q + pub(b"d.n", b"x") * 40),
        pooled=True,
        differs=_RANDOM_MEMBER,
    ),
    script(
        "from-another-connection",
        "the limit holds for others' messages",
        on("a", Q + sub(b"d.n") + unsub(b"1", 2)),
        on("b", Q + _M * 5),
    ),
    script(
        "503-is-not-counted",
        "a no-responders message does not count",
        R
        + sub(b"d.in")
        + unsub(b"1", 1)
        + pub(b"d.none", b"", b"d.in")
        + pub(b"d.in", b"1")
        + pub(b"d.in", b"2"),
    ),
)

_QUEUES = group(
    "queue",
    script(
        "one-member-gets-it",
        "a message goes to one member",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a", queue=b"g")),
        on("c", Q + pub(b"q.a", b"x") * 30),
        pooled=True,
        differs=_RANDOM_MEMBER,
    ),
    script(
        "sole-member",
        "a group of one gets all",
        Q + sub(b"q.a", b"1", b"g") + pub(b"q.a", b"x") * 3,
    ),
    script(
        "each-group",
        "every group gets its copy",
        Q
        + sub(b"q.a", b"1", b"g1")
        + sub(b"q.a", b"2", b"g2")
        + sub(b"q.a", b"3")
        + pub(b"q.a", b"x"),
        unordered=True,
    ),
    script(
        "plain-and-group",
        "plain subscribers besides",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a")),
        on("c", Q + pub(b"q.a", b"x") * 5),
    ),
    script(
        "group-across-patterns",
        "one group over several patterns",
        on("a", Q + sub(b"q.*", queue=b"g")),
        on("b", Q + sub(b"q.>", queue=b"g")),
        on("c", Q + sub(b"q.a", queue=b"g")),
        on("d", Q + pub(b"q.a", b"x") * 30),
        pooled=True,
        differs=_RANDOM_MEMBER,
    ),
    script(
        "group-per-subject",
        "the same name elsewhere is another group",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.b", queue=b"g")),
        on("c", Q + pub(b"q.a", b"1") + pub(b"q.b", b"2")),
    ),
    script(
        "case-of-name",
        "names compare bytewise",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a", queue=b"G")),
        on("c", Q + pub(b"q.a", b"x")),
    ),
    script(
        "last-member-leaves",
        "the remaining member serves",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a", queue=b"g")),
        HalfClose("a"),
        on("b", b"PING\r\n"),
        on("c", Q + pub(b"q.a", b"x") * 5),
    ),
    script(
        "unsub-leaves-group",
        "as after UNSUB",
        on("a", Q + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a", queue=b"g") + unsub(b"1")),
        on("c", Q + pub(b"q.a", b"x") * 5),
    ),
    script(
        "skips-no-echo-self",
        "a member that wants no echo is passed over",
        on("a", connect(echo=False) + sub(b"q.a", queue=b"g")),
        on("b", Q + sub(b"q.a", queue=b"g")),
        on("a", pub(b"q.a", b"x") * 5),
    ),
    script(
        "headers-to-group",
        "headers go to a member",
        H + sub(b"q.h", queue=b"g") + hpub(b"q.h", _HDR, b"x"),
    ),
    script(
        "wildcard-group",
        "a group on a pattern",
        Q
        + sub(b"q.*.z", queue=b"g")
        + pub(b"q.a.z", b"1")
        + pub(b"q.b.z", b"2")
        + pub(b"q.b.y", b"3"),
    ),
    script(
        "second-sid-takes-over",
        "the second member of a connection serves after the first",
        Q + sub(b"q.a", b"1", b"g") + sub(b"q.a", b"2", b"g") + unsub(b"1") + pub(b"q.a", b"y"),
    ),
)

_ASK = pub(b"nr.none", b"?", b"nr.in")

_NO_RESPONDERS = group(
    "no-responders",
    script("503", "nobody there: 503 to the reply subject", R + sub(b"nr.in") + _ASK),
    script(
        "503-verbose",
        "after +OK",
        connect(verbose=True, headers=True, no_responders=True) + sub(b"nr.in") + _ASK,
    ),
    script(
        "503-for-hpub",
        "for HPUB as well",
        R + sub(b"nr.in") + hpub(b"nr.none", _HDR, b"?", b"nr.in"),
    ),
    script(
        "503-wildcard-inbox",
        "an inbox pattern will do",
        R + sub(b"nr.in.*", b"9") + pub(b"nr.none", b"", b"nr.in.77"),
    ),
    script(
        "503-deep-subject",
        "the subject is in the header",
        R + sub(b"nr.in") + pub(b"nr.some.long.subject.of.many.tokens", b"", b"nr.in"),
    ),
    script("503-odd-subject", "as it is", R + sub(b"nr.in") + pub(b'nr.\xff\x01"x', b"", b"nr.in")),
    script(
        "503-invalid-subject",
        "even if it can match nothing",
        R + sub(b"nr.in") + pub(b"nr..x", b"", b"nr.in"),
    ),
    script("no-reply", "no reply subject, no 503", R + sub(b"nr.in") + pub(b"nr.none", b"?")),
    script("no-inbox", "no subscription for it, no 503", R + _ASK),
    script(
        "queue-inbox", "a queue subscription does not count", R + sub(b"nr.in", queue=b"q") + _ASK
    ),
    script(
        "other-connection's-inbox",
        "nor does another connection's",
        on("a", R + sub(b"nr.in")),
        on("b", R + _ASK),
    ),
    script("not-asked-for", "without no_responders there is none", H + sub(b"nr.in") + _ASK),
    script(
        "plain-responder",
        "any receiver will do",
        on("a", Q + sub(b"nr.none")),
        on("b", R + sub(b"nr.in") + _ASK),
    ),
    script(
        "wildcard-responder",
        "whatever its pattern",
        on("a", Q + sub(b"nr.>")),
        on("b", R + sub(b"nr.in") + _ASK),
    ),
    script(
        "queue-responder",
        "or its group",
        on("a", Q + sub(b"nr.none", queue=b"q")),
        on("b", R + sub(b"nr.in") + _ASK),
    ),
    script("self-responder", "oneself too", R + sub(b"nr.in") + sub(b"nr.none", b"2") + _ASK),
    script(
        "self-responder-no-echo",
        "unless one does not hear oneself",
        connect(headers=True, no_responders=True, echo=False)
        + sub(b"nr.in")
        + sub(b"nr.none", b"2")
        + _ASK,
    ),
    script(
        "inbox-is-the-subject",
        "a request to its own reply subject",
        R + sub(b"nr.in") + pub(b"nr.in", b"x", b"nr.in"),
    ),
    script(
        "after-responder-unsubscribed",
        "when the responder has left",
        on("a", Q + sub(b"nr.none")),
        on("a", unsub(b"1")),
        on("b", R + sub(b"nr.in") + _ASK),
    ),
    script(
        "after-auto-unsubscribe",
        "when its last message was delivered",
        on("a", Q + sub(b"nr.none") + unsub(b"1", 1)),
        on("b", R + sub(b"nr.in") + _ASK * 2),
    ),
    script("several-requests", "one 503 each", R + sub(b"nr.in") + _ASK * 5),
    script(
        "repeated-connect-switches-off",
        "the last CONNECT decides",
        R + connect(headers=True) + sub(b"nr.in") + _ASK,
        R + sub(b"nr.in") + _ASK,
    ),
    script(
        "503-to-unlimited-inbox",
        "the reply may be a pattern's literal",
        R + sub(b"nr.*") + pub(b"other.none", b"", b"nr.>"),
    ),
)

SCRIPTS = (*_SUBSCRIPTIONS, *_AUTO_UNSUBSCRIBE, *_QUEUES, *_NO_RESPONDERS)
