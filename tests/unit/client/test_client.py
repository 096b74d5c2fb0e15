"""The blocking client: TLS, nkeys, several servers, and what a server may do to it."""

import base64
import binascii
import datetime as dt
import socket
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from midge.client.client import NatsClient, sign_nonce
from midge.client.errors import AuthorizationError, OptionError, ServerError
from midge.client.jetstream import parse_deliveries
from midge.client.options import ClientOptions, ServerAddress
from midge.protocol.client_side import ReceivedMessage
from midge.protocol.credentials import split_credentials

SEED_BYTES = bytes(range(32))


def connect(url, **options):
    return NatsClient(ClientOptions.parse({"servers": url, **options}))


def encode(prefix, body):
    raw = prefix + body
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).rstrip(b"=").decode()


def user_seed():
    return encode(bytes([(18 << 3) | ((20 << 3) >> 5), ((20 << 3) & 31) << 3]), SEED_BYTES)


def user_public():
    key = Ed25519PrivateKey.from_private_bytes(SEED_BYTES).public_key()
    return encode(bytes([20 << 3]), key.public_bytes_raw())


@pytest.fixture
def certificate(tmp_path):
    """A self-signed certificate for `localhost`: paths of the certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


@pytest.mark.parametrize("first", [False, True])
def test_tls(make_nats_server, certificate, first):
    cert, key = certificate
    server = make_nats_server(
        f"tls {{ cert_file: '{cert}', key_file: '{key}', handshake_first: {str(first).lower()} }}"
    )
    url = f"tls://localhost:{server.port}"
    with connect(url, tlsCaFile=cert, tlsFirst=str(first)) as client:
        client.ping()
    by_address = f"127.0.0.1:{server.port}"
    options = {"tlsCaFile": cert, "tlsFirst": str(first), "tlsHostname": "localhost"}
    with connect(by_address, **options) as client:
        client.ping()


def test_tls_certificate_is_verified(make_nats_server, certificate):
    cert, key = certificate
    server = make_nats_server(f"tls {{ cert_file: '{cert}', key_file: '{key}' }}")
    with pytest.raises(ServerError, match="certificate verify failed"):
        connect(f"tls://localhost:{server.port}")
    with pytest.raises(ServerError, match="the server wants TLS"):
        connect(f"nats://localhost:{server.port}")


def test_tls_file_that_cannot_be_read(nats_server):
    with pytest.raises(ServerError, match="TLS files cannot be read"):
        connect(nats_server.url, tlsCaFile="/no/such/file")


def test_nkey(make_nats_server, tmp_path):
    server = make_nats_server(f"authorization {{ users: [{{ nkey: {user_public()} }}] }}")
    seed = tmp_path / "seed"
    seed.write_text(user_seed() + "\n")
    with connect(server.url, credentialsFile=seed) as client:
        client.ping()
    with pytest.raises(AuthorizationError, match="refused the credentials"):
        connect(server.url)


def test_credentials_file_is_taken_apart():
    text = (
        "-----BEGIN NATS USER JWT-----\neyJ0eXAi.x.y\n------END NATS USER JWT------\n\n"
        "*** IMPORTANT ***\n\n-----BEGIN USER NKEY SEED-----\n"
        f"{user_seed()}\n------END USER NKEY SEED------\n"
    )
    assert split_credentials(text) == ("eyJ0eXAi.x.y", user_seed())
    signed = sign_nonce(text, "nonce")
    assert signed["jwt"] == "eyJ0eXAi.x.y"
    signature = base64.urlsafe_b64decode(signed["sig"] + "==")
    Ed25519PrivateKey.from_private_bytes(SEED_BYTES).public_key().verify(signature, b"nonce")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a user's nkey seed"),
        ("SU!", "the nkey seed is not base32"),
        ("SUAA", "the nkey seed has a typing error"),
    ],
)
def test_a_wrong_seed_says_so(text, words):
    with pytest.raises(OptionError, match=words):
        sign_nonce(text, "nonce")


def test_a_seed_with_a_typing_error_says_so():
    seed = user_seed()
    with pytest.raises(OptionError, match="typing error"):
        sign_nonce(seed[:-5] + ("B" if seed[-5] == "A" else "A") + seed[-4:], "nonce")


def test_second_server_when_the_first_is_down(nats_server):
    options = ClientOptions(
        (
            ServerAddress("127.0.0.1", 1, tls=False),
            ServerAddress("127.0.0.1", nats_server.port, tls=False),
        )
    )
    with NatsClient(options) as client:
        client.ping()


def test_request_without_an_answer_ends(nats_server):
    with nats_server.client(request_timeout_s=0.2) as client, nats_server.client() as silent:
        silent.subscribe(b"silent")
        silent.ping()
        with pytest.raises(ServerError, match=r"silent: no answer within 0\.2 s"):
            client.request(b"silent", b"")


def test_answers_the_servers_ping(make_nats_server):
    # Without an answer the server closes the connection after 1.1 s.
    server = make_nats_server('ping_interval: "100ms"\nping_max: 10')
    with server.client() as client:
        assert client.receive(3.0) == []
        client.ping()


@pytest.fixture
def fake_server():
    """Return a function that serves one connection with fixed bytes and gives its address."""
    threads, listeners = [], []

    def serve(*answers):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run():
            peer, _ = listener.accept()
            with peer:
                for answer in answers:
                    peer.sendall(answer)
                    if answer is not answers[-1]:
                        peer.recv(65536)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return f"nats://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], "this is not the NATS protocol"),
        ([b"INFO {\r\n"], "INFO is not JSON"),
        ([b"INFO []\r\n"], "INFO is not a JSON object"),
        ([b'INFO {"proto":1}\r\n', b""], "closed the connection"),
        (
            [b'INFO {"proto":1}\r\n', b"-ERR 'maximum connections exceeded'\r\n"],
            "after saying: maximum conn",
        ),
    ],
)
def test_a_strange_server_is_refused_by_name(fake_server, answers, words):
    with pytest.raises(ServerError, match=words):
        connect(fake_server(*answers), connectTimeout="5")


def delivered(reply):
    return parse_deliveries([ReceivedMessage(b"a", b"1", reply, b"", b"")])


def test_reply_subjects_of_both_kinds():
    assert delivered(b"$JS.ACK.S.c.1.22.3.44.5") == ([22], [44], 5)
    assert delivered(b"$JS.ACK.broker.hash.S.c.1.22.3.44.5.token") == ([22], [44], 5)


@pytest.mark.parametrize("reply", [b"", b"$JS.ACK.S", b"$JS.ACK.S.c.1.x.3.44.5"])
def test_a_foreign_reply_subject_is_refused(reply):
    with pytest.raises(ServerError, match="expected a JetStream reply subject"):
        delivered(reply)
