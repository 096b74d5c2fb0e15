"""TLS over real sockets: which side uses it, when, and with which certificates."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from midge.server.config.options import Listen, Options, Tls
from midge.server.config.options import User as UserTable
from tests.support.keys import Authority, pem
from tests.support.users import Open, Start, permissions, users

ONE_PORT = Listen(port=-1)


class TestTls:
    AUTHORITY = Authority()

    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, str]:
        made = {"ca": self.AUTHORITY.pem}
        for name in ("server", "client"):
            certificate, key = self.AUTHORITY.issue(f"CN={name}")
            made |= {f"{name}_cert": pem(certificate), f"{name}_key": key}
        paths = {}
        for name, content in made.items():
            (tmp_path / name).write_bytes(content)
            paths[name] = str(tmp_path / name)
        return paths

    def table(self, files: dict[str, str], **fields: Any) -> Tls:
        certificate, key = files["server_cert"], files["server_key"]
        return Tls(cert_file=certificate, key_file=key, ca_file=files["ca"], **fields)

    def context(self, files: dict[str, str], *, shows_itself: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=files["ca"])
        context.check_hostname = False
        if shows_itself:
            context.load_cert_chain(files["client_cert"], files["client_key"])
        return context

    async def test_messages_go_through_it(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server, self.context(files))
        assert raw.info["tls_required"]
        await raw.connect()
        payload = b"x" * 500_000
        got = await raw.ask(b"SUB a 1", b"PUB a 500000", payload)
        assert got == b"MSG a 1 500000\r\n" + payload + b"\r\n"

    async def test_plain_text_is_cut_off(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server)
        assert await raw.connect() == b""

    async def test_a_silent_client_is_cut_off_in_time(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, timeout_s=0.2))
        raw = await dial(server)
        assert await raw.until_end() == b""

    async def test_plain_and_encrypted_clients_share_the_port(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, allow_non_tls=True))
        plain, encrypted = await dial(server), await dial(server, self.context(files))
        assert plain.info["tls_available"]
        assert "tls_required" not in plain.info
        await plain.connect()
        await encrypted.connect()
        await encrypted.ask(b"SUB a 1")
        await plain.ask(b"PUB a 1", b"x")
        assert await encrypted.ask() == b"MSG a 1 1\r\nx\r\n"

    async def test_the_handshake_may_come_first(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, handshake_first="on"))
        raw = await dial(server, self.context(files), is_tls_first=True)
        await raw.connect()
        assert await raw.ask(b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\n"

    @pytest.mark.parametrize(("is_first", "fallback_s"), [(True, 30), (False, 0.01)])
    async def test_either_order_will_do_when_it_is_automatic(
        self,
        start: Start,
        dial: Open,
        files: dict[str, str],
        is_first: bool,
        fallback_s: float,
    ) -> None:
        table = self.table(files, handshake_first="auto", handshake_first_fallback_s=fallback_s)
        server = await start(tls=table)
        raw = await dial(server, self.context(files), is_tls_first=is_first)
        assert await raw.connect() == b""

    async def test_certificates_name_their_users(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        rules = permissions(publish=("mine",))
        named = UserTable(user="CN=client", permissions=rules)
        server = await start(tls=self.table(files, verify_and_map=True), authorization=users(named))
        raw = await dial(server, self.context(files, shows_itself=True))
        assert raw.info["tls_verify"]
        assert await raw.connect() == b""
        assert b"Permissions Violation" in await raw.ask(b"PUB other 0", b"")

    async def test_a_client_without_certificate_gets_nowhere(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, verify=True))
        try:
            raw = await dial(server, self.context(files))
            answer = await raw.connect()
        except OSError:
            answer = b""
        assert answer == b""
        assert not server.connections()

    async def test_handshakes_are_rationed(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, connection_rate_limit=1))
        text = b"-ERR 'Connection throttling is active. Please try again later.'\r\n"
        answers = []
        for _ in range(3):
            raw = await dial(server)
            raw.send(b"garbage")
            answers.append(await raw.until_end())
        assert text in answers

    async def test_new_certificates_serve_without_a_restart(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server, self.context(files))
        await raw.connect()
        certificate, key = self.AUTHORITY.issue("CN=renewed")
        Path(files["server_cert"]).write_bytes(pem(certificate))
        Path(files["server_key"]).write_bytes(key)
        await server.reload(Options(listen=ONE_PORT, tls=self.table(files)))
        assert await raw.ask(b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\n"
        renewed = await dial(server, self.context(files))
        names = renewed.tls_detail("peercert")["subject"]
        assert names == ((("commonName", "renewed"),),)
