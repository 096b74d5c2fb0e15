"""Signals: the end of a server, its lame duck phase, and a changed configuration file."""

from tests.differential.script import (
    Await,
    AwaitClose,
    Open,
    Quiet,
    ServerConfig,
    Signal,
    connect,
    group,
    on,
    pub,
    quiet_after,
    script,
    sub,
)

from .auth import login


def _users(password: str = "p", rules: str = "", limits: str = "") -> str:
    return (
        f"{limits}\nauthorization {{ users: [\n"
        f"  {{ user: u, password: {password} }}\n"
        f"  {{ user: v, password: p, permissions: {{ publish: '>' {rules} }} }}\n] }}\n"
    )


def _accounts(first: str, second: str) -> str:
    users = ", ".join(f"{{ user: {name}, password: p }}" for name in "uv")
    return f"accounts {{\n  {first} {{ users: [ {users} ] }}\n  {second} {{ }}\n}}\n"


RUNNING = ServerConfig("running", "lame_duck_grace_period: '1s'\n", disposable=True)
RELOADED = ServerConfig("reloaded", _users(), disposable=True)

ACCOUNTS = ServerConfig("reloaded-accounts", _accounts("A", "B"), disposable=True)

U = login("u", "p")
V = login("v", "p")
_PONG = b"PONG\r\n"
_LDM = b'"ldm":true'

SCRIPTS = (
    *group(
        "lifecycle",
        script(
            "term",
            "SIGTERM: just the end",
            connect(),
            b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGTERM"),
            AwaitClose("a"),
        ),
        script(
            "int",
            "SIGINT: just the end",
            connect(),
            b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGINT"),
            AwaitClose("a"),
        ),
        script("term-without-connect", "for all", Open("a"), Signal("SIGTERM"), AwaitClose("a")),
        script(
            "lame-duck-info",
            "lame duck: an INFO for clients of protocol 1",
            connect(protocol=1) + b"PING\r\n",
            Await("a", b"connect_info"),
            Signal("SIGUSR2"),
            Await("a", _LDM),
            b"PING\r\n",
            Await("a", _PONG, 3),
            final_ping=False,
        ),
        script(
            "lame-duck-serves",
            "clients are still served",
            on("a", connect(protocol=1) + sub(b"l")),
            on("b", connect() + b"PING\r\n"),
            Await("b", _PONG),
            Signal("SIGUSR2"),
            Await("a", _LDM),
            on("b", pub(b"l", b"x")),
            on("a", b"PING\r\n"),
            Await("a", _PONG, 2),
            final_ping=False,
        ),
        script(
            "lame-duck-refuses",
            "new ones are refused",
            connect(protocol=1) + b"PING\r\n",
            Await("a", b"connect_info"),
            Signal("SIGUSR2"),
            Await("a", _LDM),
            Open("b"),
            b"PING\r\n",
            Await("a", _PONG, 3),
            final_ping=False,
        ),
        config=RUNNING,
    ),
    *group(
        "lifecycle/reload",
        script(
            "password",
            "a changed password ends the connection",
            U + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(password="q")),
            AwaitClose("a"),
        ),
        script(
            "new-password",
            "and holds from then on",
            U + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(password="q")),
            AwaitClose("a"),
            on("b", login("u", "q")),
            on("c", U),
        ),
        script(
            "unchanged-user",
            "others stay",
            on("b", V + b"PING\r\n"),
            Await("b", b"PONG"),
            on("a", U + b"PING\r\n"),
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(password="q")),
            AwaitClose("a"),
            on("b", b"PING\r\n"),
        ),
        script(
            "lost-permission",
            "a subscription that is no longer allowed ends",
            V + sub(b"ok", b"1") + sub(b"no.x", b"2") + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(rules=", subscribe: ok")),
            Await("a", b"-ERR"),
            pub(b"ok", b"1") + pub(b"no.x", b"2"),
        ),
        script(
            "lost-queue-permission",
            "in a group too",
            V + sub(b"ok", b"1") + sub(b"no.y", b"3", b"q") + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(rules=", subscribe: ok")),
            Await("a", b"-ERR"),
            pub(b"ok", b"1") + pub(b"no.y", b"3"),
        ),
        script(
            "payload",
            "a smaller payload holds at once",
            U + sub(b"x") + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", _users(limits="max_payload: 4")),
            quiet_after("a"),
            pub(b"x", b"12345"),
            AwaitClose("a"),
        ),
        script(
            "broken",
            "a broken file changes nothing",
            U + sub(b"x") + b"PING\r\n",
            Await("a", b"PONG"),
            Signal("SIGHUP", "authorization {{"),
            quiet_after("a"),
            pub(b"x", b"1"),
            on("b", U),
        ),
        script(
            "connections",
            "too many connections for a smaller limit",
            on("a", U + b"PING\r\n"),
            on("b", U + b"PING\r\n"),
            Await("b", b"PONG"),
            Signal("SIGHUP", _users(limits="max_connections: 1")),
            Quiet("a", 0.4),
            Quiet("b", 0.4),
            pooled=True,
            differs="which of the surplus clients has to go is open in both servers",
        ),
        config=RELOADED,
    ),
    *group(
        "lifecycle/reload",
        script(
            "account",
            "who has another account now is closed, and may come again",
            on("a", U + b"PING\r\n"),
            Await("a", b"PONG"),
            Signal("SIGHUP", _accounts("B", "A")),
            AwaitClose("a"),
            on("b", login("u", "p", protocol=1)),
        ),
        config=ACCOUNTS,
    ),
)
