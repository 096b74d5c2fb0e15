"""What the server itself answers: the requests that every account may send, and those it may not."""

from tests.differential.script import ServerConfig, connect, group, pub, script, sub

Q = connect(no_responders=True)
_INBOX = sub(b"in", b"7")


def _asked(subject: bytes) -> bytes:
    return Q + _INBOX + pub(subject, b"", reply=b"in")


SCRIPTS = group(
    "system",
    *(
        script(name, "nobody answers an account that is not the system's", _asked(subject))
        for name, subject in (
            ("server-ping", b"$SYS.REQ.SERVER.PING"),
            ("server-ping-varz", b"$SYS.REQ.SERVER.PING.VARZ"),
            ("server-reload", b"$SYS.REQ.SERVER.NOBODY.RELOAD"),
            ("account-connz", b"$SYS.REQ.ACCOUNT.$G.CONNZ"),
            ("claims", b"$SYS.REQ.CLAIMS.LIST"),
            ("other", b"$SYS.REQ.NO.SUCH.THING"),
            ("jetstream", b"$JS.API.INFO"),
        )
    ),
    script(
        "user-info-without-reply",
        "who leaves no inbox gets nothing",
        Q + _INBOX + pub(b"$SYS.REQ.USER.INFO", b""),
    ),
    script(
        "events-are-not-seen",
        "a plain account sees nothing of the events",
        Q + sub(b"$SYS.>"),
    ),
    script(
        "own-messages-on-system-subjects",
        "but may use the names for itself",
        Q + sub(b"$SYS.ACCOUNT.*.CONNECT") + pub(b"$SYS.ACCOUNT.A.CONNECT", b"x"),
    ),
    config=ServerConfig("system", "port: -1\n"),
)
