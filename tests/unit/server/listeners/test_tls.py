"""TLS contexts: what they accept, what a reload changes, and what bad files say."""

from __future__ import annotations

import contextlib
import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from midge.server.config.options import Tls, TlsCertificate
from midge.server.errors import ConfigError
from midge.server.listeners import tls
from midge.server.listeners.tls import (
    HandshakeLimit,
    TlsContexts,
    build_server_context,
    is_client_hello,
)
from tests.support.keys import Authority, pem

AUTHORITY = Authority()
OTHER_AUTHORITY = Authority("other")


class Files:
    """Certificates on disk: a server's, a client's, and an authority's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = self._write("ca.pem", AUTHORITY.pem)
        self.server = self.issue("server", AUTHORITY)
        self.client = self.issue("client", AUTHORITY)
        self.stranger = self.issue("stranger", OTHER_AUTHORITY)

    def issue(self, name: str, authority: Authority) -> tuple[str, str]:
        certificate, key = authority.issue(f"CN={name}")
        return (
            self._write(f"{name}-cert.pem", pem(certificate)),
            self._write(f"{name}-key.pem", key),
        )

    def table(self, **fields: Any) -> Tls:
        certificate, key = self.server
        return Tls(**{"cert_file": certificate, "key_file": key, **fields})

    def _write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def client_context(files: Files, identity: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.authority)
    context.check_hostname = False
    if identity:
        context.load_cert_chain(*identity)
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ...]:
    """Run a handshake in memory; raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    )
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
        if len(done) == 2:
            break
    # In TLS 1.3 a refused client certificate shows only when the client next reads.
    for side in sides:
        try:
            side.read(1)
        except ssl.SSLWantReadError:
            continue
    assert len(done) == 2
    return sides


def test_a_handshake_ends_with_a_safe_suite(files: Files) -> None:
    context = build_server_context(files.table())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client = client_context(files)
        client.maximum_version = version
        server_side, _ = shake_hands(context, client)
        cipher = server_side.cipher()
        assert cipher is not None
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]
        assert server_side.getpeercert() is None


def test_a_client_gets_the_certificate_for_its_server_name(files: Files) -> None:
    """The first that has the name, with or without a wildcard; the first of all for others."""
    names = {"one": "a.example", "two": "*.b.example", "three": "a.example"}
    pairs = {}
    for key, name in names.items():
        certificate, private = AUTHORITY.issue(f"CN={key}", [x509.DNSName(name)])
        paths = [str(files.folder / f"{key}.{end}") for end in ("pem", "key")]
        for path, content in zip(paths, (pem(certificate), private), strict=True):
            Path(path).write_bytes(content)
        pairs[key] = TlsCertificate(cert_file=paths[0], key_file=paths[1])
    context = build_server_context(Tls(certs=tuple(pairs.values())))
    for asked, expected in (
        ("a.example", "one"),
        ("x.b.example", "two"),
        ("X.B.example", "two"),
        ("y.x.b.example", "one"),
        ("other", "one"),
        (None, "one"),
    ):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(to_server, to_client, server_side=True)
        client = client_context(files).wrap_bio(to_client, to_server, server_hostname=asked)
        for _ in range(4):
            for side in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        shown = client.getpeercert(binary_form=True)
        assert shown is not None
        names_shown = x509.load_der_x509_certificate(shown).subject.rfc4514_string()
        assert names_shown == f"CN={expected}", asked


def test_old_versions_are_refused(files: Files) -> None:
    client = client_context(files)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake_hands(build_server_context(files.table(min_version="1.3")), client)
    assert build_server_context(files.table()).minimum_version == ssl.TLSVersion.TLSv1_2


def test_only_the_chosen_suites_are_offered(files: Files) -> None:
    chosen = files.table(cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",))
    client = client_context(files)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    server_side, _ = shake_hands(build_server_context(chosen), client)
    assert server_side.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(ssl.SSLError):
        shake_hands(build_server_context(chosen), client)


def test_what_is_sent_is_what_the_certificates_file_holds(files: Files) -> None:
    """Without verify; with it, OpenSSL completes the chain from ca_file."""
    table = files.table(ca_file=files.authority)
    _, client = shake_hands(build_server_context(table), client_context(files))
    assert len(client._sslobj.get_unverified_chain()) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("field", ["verify", "verify_and_map"])
def test_verified_clients_need_a_certificate_of_the_authority(files: Files, field: str) -> None:
    context = build_server_context(files.table(ca_file=files.authority, **{field: True}))
    server_side, _ = shake_hands(context, client_context(files, files.client))
    assert server_side.getpeercert(binary_form=True)
    for identity in (None, files.stranger):
        with pytest.raises(ssl.SSLError):
            shake_hands(context, client_context(files, identity))


def test_a_reload_takes_the_new_files(files: Files) -> None:
    contexts = TlsContexts(files.table())
    before = contexts.context
    old = peer_certificate(files, contexts.context)
    files.issue("server", AUTHORITY)
    put_in_force = contexts.prepare(files.table())
    assert peer_certificate(files, contexts.context) == old
    put_in_force()
    assert contexts.context is not before
    assert peer_certificate(files, contexts.context) != old


def test_a_bad_reload_changes_nothing(files: Files) -> None:
    contexts = TlsContexts(files.table())
    before = contexts.context
    Path(files.server[0]).write_text("not a certificate")
    with pytest.raises(ConfigError):
        contexts.prepare(files.table())
    assert contexts.context is before
    assert shake_hands(contexts.context, client_context(files))


def peer_certificate(files: Files, context: ssl.SSLContext) -> bytes | None:
    return shake_hands(context, client_context(files))[1].getpeercert(binary_form=True)


@pytest.mark.parametrize(("days", "is_told"), [(-2, True), (0, False), (2, True)])
def test_a_certificate_out_of_date_is_told_of(
    files: Files,
    days: int,
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class OtherDay(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(tls, "datetime", OtherDay)
    contexts = TlsContexts(files.table())
    contexts.prepare(files.table())()
    told = [one for one in caplog.messages if one.startswith("certificate_out_of_date")]
    assert len(told) == 2 * is_told
    assert all(files.server[0] in one and "valid from" in one for one in told)


class TestBadSettings:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"cert_file": ""}, "tls.cert_file: expected the path of a file, got nothing"),
            ({"key_file": ""}, "tls.key_file: expected the path of a file, got nothing"),
            ({"cert_file": "gone.pem"}, "cannot read 'gone.pem': no such file"),
            ({"ca_file": "gone.pem"}, "tls.ca_file: cannot read 'gone.pem'"),
            ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)}, "got 'TLS_RSA_WITH_RC4_128_SHA'"),
        ],
    )
    def test_each_says_what_is_wrong(self, files: Files, fields: dict[str, Any], text: str) -> None:
        with pytest.raises(ConfigError) as raised:
            build_server_context(files.table(**fields))
        assert text in str(raised.value)

    def test_a_key_of_another_certificate(self, files: Files) -> None:
        with pytest.raises(ConfigError, match=r"no certificate with its key: .*mismatch"):
            build_server_context(files.table(key_file=files.client[1]))

    def test_an_authority_file_without_certificates(self, files: Files, tmp_path: Path) -> None:
        empty = tmp_path / "empty.pem"
        empty.write_text("nothing")
        with pytest.raises(ConfigError, match="holds no certificates"):
            build_server_context(files.table(ca_file=str(empty)))

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("cert_file", "holds no certificate; expected -----BEGIN CERTIFICATE----- in it"),
            ("key_file", "holds no private key; expected -----BEGIN PRIVATE KEY----- in it"),
        ],
    )
    def test_a_file_of_something_else(
        self, files: Files, tmp_path: Path, name: str, text: str
    ) -> None:
        wrong = tmp_path / "wrong.pem"
        wrong.write_text("nothing")
        with pytest.raises(ConfigError) as raised:
            build_server_context(files.table(**{name: str(wrong)}))
        assert str(raised.value) == f"tls.{name}: '{wrong}' {text}"

    def test_an_encrypted_key(self, files: Files) -> None:
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            PrivateFormat,
        )

        locked = generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
        )
        Path(files.server[1]).write_bytes(locked)
        with pytest.raises(ConfigError, match="private key is encrypted"):
            build_server_context(files.table())


class TestHandshakeLimit:
    def test_each_second_has_its_own_count(self) -> None:
        limit = HandshakeLimit(2)
        assert [limit.admit(t) for t in (5.0, 5.5, 5.9, 6.0, 6.1, 6.2)] == [
            True,
            True,
            False,
            True,
            True,
            False,
        ]
        assert limit.refused == 2

    def test_zero_limits_nothing(self) -> None:
        assert all(HandshakeLimit(0).admit(0.0) for _ in range(100))


def test_the_first_byte_tells_tls_from_nats() -> None:
    assert is_client_hello(0x16)
    assert not any(is_client_hello(byte) for byte in b"CcPpSsUuHhIi+-")
