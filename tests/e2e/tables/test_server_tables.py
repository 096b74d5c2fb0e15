"""`[[tables]]`: a server keeps tables of its streams, across reloads, kills and its own end."""

import asyncio
import json
import os
import re
import signal
import time
import urllib.request
from ipaddress import ip_address
from pathlib import Path
from urllib.error import HTTPError

import pytest
from cryptography import x509

from midge.client.client import NatsClient
from midge.client.jetstream import JetStreamApi
from midge.client.options import ClientOptions
from midge.protocol.client_side import publish_frame
from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import JetStream as JetStreamOptions
from midge.server.config.options import Listen, Options, StreamTable
from midge.tables import create_table, rebuild, scan
from tests.support.keys import (
    UNLIMITED_ACCOUNT,
    Authority,
    KeyPair,
    credentials_file,
    make_token,
    pem,
)
from tests.support.processes import Server, midge_command
from tests.support.served import serving

pytestmark = pytest.mark.timeout(180)


def config(directory, *tables, more=""):
    return f"""
        http: "127.0.0.1:-1"
        jetstream {{ store_dir: "@directory@" }}
        {more}
        tables: [ {", ".join(_table(directory, **one) for one in tables)} ]
    """.replace("@directory@", str(directory))


def _table(
    directory, name, folder=None, stream="ORDERS", every="100ms", columns="n: int64", more=""
):
    url = f"{directory}/{folder or name}"
    return (
        f'{{ name: {name}, stream: {stream}, url: "{url}", every: "{every}", '
        f"columns: {{ {columns} }} {more} }}"
    )


def client_of(server, **login):
    return NatsClient(ClientOptions.parse({"servers": server.url, **login}))


def make_stream(client, name="ORDERS", subjects=("orders.>",), **more):
    config = {"name": name, "subjects": list(subjects), "storage": "file", **more}
    JetStreamApi(client).call(f"STREAM.CREATE.{name}", config)


def publish(client, count, start=0, subject=b"orders.a"):
    stream = JetStreamApi(client)
    numbers = range(start, start + count)
    client.send(b"".join(publish_frame(subject, b"", b"", b'{"n": %d}' % n) for n in numbers[1:]))
    stream.publish(subject, b'{"n": %d}' % start)


def rows(url, server=None):
    return sorted(scan(str(url), server).to_table(["n"]).column("n").to_pylist())


def is_made(directory):
    """Whether the process has made its table, and so is up."""
    return Path(directory, "orders/_delta_log").exists()


def eventually(condition):
    deadline = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited for 120 s"
        time.sleep(0.02)
    return found


def landed(url, count):
    def is_landed():
        return (Path(url) / "_delta_log").is_dir() and len(rows(url)) == count

    eventually(is_landed)


def page(server, path):
    host, port = server.address("monitoring")
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def worker_of(server):
    return int(re.findall(r"Table process started: pid=(\d+)", server.log)[-1])


def test_a_stream_becomes_a_table_until_the_last_message(tmp_path):
    directory = str(tmp_path)
    with Server(midge_command(), config(directory, {"name": "orders"})) as server:
        with client_of(server) as client:
            make_stream(client)
            publish(client, 100)
            landed(f"{directory}/orders", 100)
            assert page(server, "/healthz?tables=true")[0] == 200
            labels = '{account="$G",stream="ORDERS",table="orders"}'
            eventually(lambda: f"midge_table_rows_total{labels} 100.0" in metrics_of(server))
            metrics = page(server, "/metrics")[1]
            assert f"midge_table_lag_messages{labels} 0.0" in metrics
            assert f"midge_table_failing{labels} 0.0" in metrics
            assert os.getpriority(os.PRIO_PROCESS, worker_of(server)) >= 10
            server.reload(config(directory, {"name": "orders", "every": "1h"}))
            publish(client, 50, start=100)
        worker = worker_of(server)
    assert rows(f"{directory}/orders") == list(range(150))
    assert not Path(f"/proc/{worker}").exists()


def test_kills_of_the_process_lose_and_double_nothing(tmp_path):
    directory = str(tmp_path)
    with Server(midge_command(), config(directory, {"name": "orders", "every": "50ms"})) as server:
        with client_of(server) as client:
            make_stream(client)
            count = 0
            for kill in range(3):
                eventually(lambda number=kill: server.log.count("Table process started") > number)
                for _ in range(10):
                    publish(client, 20, start=count)
                    count += 20
                os.kill(worker_of(server), signal.SIGKILL)
                assert rows_or_none(directory, server) in (None, list(range(count)))
            publish(client, 20, start=count)
            count += 20
            landed(f"{directory}/orders", count)
        assert server.log.count("Table process ended") == 3
    assert rows(f"{directory}/orders") == list(range(count))


def rows_or_none(directory, server):
    is_made = (Path(directory) / "orders" / "_delta_log").is_dir()
    return rows(f"{directory}/orders", server.url) if is_made else None


def test_a_reload_adds_changes_and_removes_tables(tmp_path):
    directory = str(tmp_path)
    text = config(directory, {"name": "one"})
    with Server(midge_command(), text) as server, client_of(server) as client:
        make_stream(client)
        publish(client, 10)
        landed(f"{directory}/one", 10)
        server.reload(config(directory, {"name": "two"}))
        landed(f"{directory}/two", 10)
        publish(client, 10, start=10)
        landed(f"{directory}/two", 20)
        changed = {"name": "two", "columns": "n: double"}
        server.reload(config(directory, changed, {"name": "one"}))
        landed(f"{directory}/one", 20)
        status, text = eventually(lambda: unhealthy(server))
        assert status == 503
        assert "use midge table rebuild" in json.loads(text)["error"]
        rebuild(f"{directory}/two", {"n": "double"})
        eventually(lambda: page(server, "/healthz?tables=true")[0] == 200)
        publish(client, 10, start=20)
        landed(f"{directory}/two", 30)
        server.reload(config(directory))
        eventually(lambda: not metrics_of(server))
        assert page(server, "/healthz?tables=true")[0] == 200


def unhealthy(server):
    status, text = page(server, "/healthz?tables=true")
    return (status, text) if status != 200 else None


def metrics_of(server):
    return "".join(re.findall(r"\nmidge_table_rows_total.*", page(server, "/metrics")[1]))


def a_file(url, server):
    Path(url).write_text("a file")
    return "cannot be written to: file exists"


def a_table_of_another_stream(url, server):
    create_table(url, "OTHERS", server.url, columns={"n": "int64"})
    return "is a table of stream 'OTHERS', not of stream 'ORDERS'"


def a_cut_log(url, server):
    create_table(url, "ORDERS", server.url, columns={"n": "int64"})
    (entry,) = Path(url, "_delta_log").glob("*.json")
    entry.write_bytes(entry.read_bytes()[:100])
    return "cannot be read: "


def a_path_that_deltalake_does_not_take(url, server):
    return "cannot be a table: deltalake takes no '[' in a path"


BAD = {
    "file": a_file,
    "another": a_table_of_another_stream,
    "cut": a_cut_log,
    "a[b": a_path_that_deltalake_does_not_take,
}
"""What makes a table bad, by its folder."""


def test_tables_that_cannot_be_made_hold_up_no_other(tmp_path):
    directory = str(tmp_path)
    with Server(midge_command(), config(directory)) as server:
        with client_of(server) as client:
            make_stream(client)
            make_stream(client, "OTHERS", ["others.>"])
            publish(client, 10)
            reasons = {f: make(f"{directory}/{f}", server) for f, make in BAD.items()}
            before = files_of_tables(directory)
            bad = ({"name": f"bad{n}", "folder": folder} for n, folder in enumerate(BAD))
            server.reload(config(directory, *bad, {"name": "good"}))
            landed(f"{directory}/good", 10)
            eventually(lambda: server.log.count("Table failed") == len(BAD))
            status, text = page(server, "/healthz?tables=true")
            assert (status, json.loads(text)["error"].startswith("table ")) == (503, True)
            assert page(server, "/healthz")[0] == 200
            failing = re.findall(r"\nmidge_table_failing\S+ 1\.0", page(server, "/metrics")[1])
            assert len(failing) == len(BAD)
            publish(client, 10, start=10)
            landed(f"{directory}/good", 20)
        log = server.log
    lines = [line for line in log.splitlines() if "Table failed" in line]
    for n, (folder, reason) in enumerate(reasons.items()):
        (line,) = (line for line in lines if f"table=bad{n} " in line)
        assert f"{directory}/{folder}: {reason}" in line
    assert "Traceback" not in log
    assert files_of_tables(directory) == before


def files_of_tables(directory):
    """Return the files at the places of bad tables."""
    roots = [Path(directory, folder) for folder in BAD]
    files = [path for root in roots for path in [root, *root.rglob("*")] if path.is_file()]
    return {path: path.read_bytes() for path in files if path.name != "_midge.lock"}


def test_lame_duck_ends_with_a_last_commit(tmp_path):
    directory = str(tmp_path)
    more = "lame_duck_duration: 30s, lame_duck_grace_period: 1s"
    tables = {"name": "orders", "every": "1h"}
    with Server(midge_command(), config(directory, tables, more=more)) as server:
        with client_of(server) as client:
            make_stream(client)
            eventually(lambda: is_made(directory))
            server.signal("SIGUSR2")
            eventually(lambda: "lame duck mode" in server.log)
            publish(client, 30)
        server.process.wait(60)
    assert rows(f"{directory}/orders") == list(range(30))


def test_accounts_with_users_who_need_passwords(tmp_path):
    directory = str(tmp_path)
    more = """
        accounts { A { jetstream: enabled, users: [ {user: a, password: secret} ] } }
    """
    tables = {"name": "orders", "more": ", account: A"}
    with Server(midge_command(), config(directory, tables, more=more)) as server:
        with client_of(server, user="a", password="secret") as client:
            make_stream(client)
            publish(client, 10)
            landed(f"{directory}/orders", 10)
            server.signal("SIGHUP")
            eventually(lambda: "Reloaded server configuration" in server.log)
            publish(client, 10, start=10)
            landed(f"{directory}/orders", 20)
        assert "secret" not in server.log


def test_operator_mode_with_tls(tmp_path):
    directory, authority = str(tmp_path), Authority()
    operator, system, account = (
        KeyPair(kind) for kind in (KeyKind.OPERATOR, KeyKind.ACCOUNT, KeyKind.ACCOUNT)
    )
    user = KeyPair(KeyKind.USER)
    unlimited = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    claims = {"limits": {**UNLIMITED_ACCOUNT, **unlimited}}
    tokens = {
        system.public: make_token(operator, system.public, "account"),
        account.public: make_token(operator, account.public, "account", nats=claims),
    }
    address = x509.IPAddress(ip_address("127.0.0.1"))
    certificate, key = authority.issue(alternatives=[address])
    more = f"""
        operator: {make_token(operator, operator.public, "operator")}
        system_account: {system.public}
        resolver: MEMORY
        resolver_preload: {{ {", ".join(f"{key}: {token}" for key, token in tokens.items())} }}
        tls {{ cert_file: "{directory}/cert.pem", key_file: "{directory}/key.pem" }}
    """
    (tmp_path / "cert.pem").write_bytes(pem(certificate))
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    limits = {"subs": -1, "data": -1, "payload": -1}
    login = make_token(account, user.public, "user", nats=limits)
    (tmp_path / "user.creds").write_bytes(credentials_file(login, user))
    tables = {"name": "orders", "more": f", account: {account.public}"}
    options = {"credentialsFile": f"{directory}/user.creds", "tlsCaFile": f"{directory}/ca.pem"}
    text = config(directory, tables, more=more)
    with Server(midge_command(), text) as server, client_of(server, **options) as client:
        make_stream(client)
        publish(client, 10)
        landed(f"{directory}/orders", 10)


def test_an_interest_stream_keeps_messages_from_the_first_publisher_on(tmp_path):
    directory = str(tmp_path)
    table = {"name": "orders", "every": "1h"}
    with Server(midge_command(), config(directory)) as server, client_of(server) as client:
        make_stream(client, retention="interest")
        publish(client, 5)  # without interest in them
    with Server(midge_command(), config(directory, table)) as server, client_of(server) as client:
        publish(client, 30)
        info = JetStreamApi(client).call("CONSUMER.INFO.ORDERS.table-orders")
        assert info["config"]["ack_policy"] == "all"
        assert info["num_pending"] + info["num_ack_pending"] + info["ack_floor"]["stream_seq"] > 0
        eventually(lambda: is_made(directory))  # a process that is still starting is not waited for
    assert rows(f"{directory}/orders") == list(range(30))
    with Server(midge_command(), config(directory)) as server, client_of(server) as client:
        assert JetStreamApi(client).stream_state("ORDERS").messages == 0


async def test_nobody_else_can_log_in_to_the_listener_of_the_process(tmp_path):
    table = StreamTable(name="t", stream="S", url=str(tmp_path / "t"))
    options = Options(
        listen=Listen(port=-1),
        jetstream=JetStreamOptions(enabled=True, store_dir=str(tmp_path)),
        tables=(table,),
    )
    async with serving(options) as (server,):
        service = server._tables
        for line in (b"", b'"user":"$G"', b'"user":"$G","pass":"x"', b'"user":"$G","pass":""'):
            reader, writer = await asyncio.open_connection(*service._listener._socket.getsockname())
            await reader.readline()
            writer.write(b"CONNECT {%s}\r\nPING\r\n" % line)
            assert await reader.readline() == b"-ERR 'Authorization Violation'\r\n"
            writer.close()
            await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.broker.port)
        await reader.readline()
        secret = service._password.encode()
        writer.write(b'CONNECT {"verbose":false,"user":"$G","pass":"%s"}\r\nPING\r\n' % secret)
        assert await reader.readline() == b"PONG\r\n"  # open to all clients
        assert not any(
            one.identity and one.identity.user == "midge.tables"
            for one in server.connections()
            if one.listener_kind == "STANDARD"
        )
        writer.close()
        await writer.wait_closed()
