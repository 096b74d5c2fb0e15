"""NATS over WebSocket from a page: what a browser's client does, against a server process."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509

from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }\n'
    with Server(midge_command(), config) as started:
        yield started


def url_of(server: Server, scheme: str = "ws") -> str:
    host, port = server.address("websocket")
    return f"{scheme}://{host}:{port}/"


@pytest.fixture
def page(new_page: Callable[..., Any], origin: str) -> Any:
    opened = new_page()
    opened.goto(f"{origin}/client.html")
    return opened


def run(page: Any, server: Server, script: str) -> Any:
    """Run `script` with a connected `nats`."""
    body = f"""async (url) => {{
        const nats = await new Client(url).connect();
        {script}
    }}"""
    return page.evaluate(body, url_of(server))


def test_publish_and_subscribe(page: Any, server: Server) -> None:
    script = """
        const got = [];
        nats.subscribe("orders.*", (message) => got.push([message.subject, message.text]));
        nats.publish("orders.new", "één");
        nats.publish("orders.old", "");
        nats.publish("other", "x");
        await nats.flush();
        return { got, frames: [...new Set(nats.frames)], errors: nats.errors, info: nats.info };
    """
    result = run(page, server, script)
    assert result["got"] == [["orders.new", "één"], ["orders.old", ""]]
    assert result["frames"] == ["binary"]
    assert result["errors"] == []
    assert result["info"]["headers"] is True
    assert page.complaints == []


def test_requests_headers_and_no_responders(page: Any, server: Server) -> None:
    script = """
        const service = await new Client(url).connect();
        service.subscribe("svc", (message) => service.publish(message.reply, message.text + "!",
            { headers: { Trace: message.headers.Trace } }), "workers");
        await service.flush();
        const answer = await nats.request("svc", "hello", { headers: { Trace: "42" } });
        const nobody = await nats.request("nobody.there", "x");
        await service.close();
        return [answer.text, answer.headers, nobody.status, nobody.text];
    """
    assert run(page, server, script) == ["hello!", {"Trace": "42"}, "NATS/1.0 503", ""]


def test_bytes_of_any_value_and_size(page: Any, server: Server) -> None:
    script = """
        const sent = new Uint8Array(1 << 20);
        for (let i = 0; i < sent.length; i += 65536)
            crypto.getRandomValues(sent.subarray(i, i + 65536));
        const got = new Promise((done) => nats.subscribe("blob", done));
        nats.publish("blob", sent);
        const { data } = await got;
        return data.length === sent.length && data.every((byte, i) => byte === sent[i]);
    """
    assert run(page, server, script) is True


def test_compression_is_agreed_and_saves_bytes(page: Any, server: Server) -> None:
    script = """
        const got = new Promise((done) => nats.subscribe("text", done));
        nats.publish("text", "all the same ".repeat(50000));
        return [nats.socket.extensions, (await got).text.length];
    """
    extensions, length = run(page, server, script)
    assert "permessage-deflate" in extensions
    assert length == 13 * 50_000


def test_many_messages_keep_their_order(page: Any, server: Server) -> None:
    script = """
        const got = [];
        nats.subscribe("n", (message) => got.push(Number(message.text)));
        for (let i = 0; i < 5000; i++) nats.publish("n", String(i));
        await nats.flush();
        return got.length === 5000 && got.every((value, i) => value === i);
    """
    assert run(page, server, script) is True


def test_the_end_tells_its_reason(page: Any, server: Server) -> None:
    script = """
        const wrong = await new Client(url).connect();
        wrong.send("BOGUS\\r\\n");
        return [await nats.close(), await wrong.ended, wrong.errors];
    """
    own, wrong, errors = run(page, server, script)
    assert own["code"] == 1000
    assert wrong["code"] == 1002
    assert errors == ["'Unknown Protocol Operation'"]


def test_a_page_of_another_origin_is_refused(new_page: Callable[..., Any], origin: str) -> None:
    listen = 'listen: "127.0.0.1:-1", no_tls: true'
    config = f'websocket {{ {listen}, allowed_origins: "{origin}" }}\n'
    with Server(midge_command(), config) as server:
        url = url_of(server)
        connect = "(url) => new Client(url).connect().then(() => 'in', (error) => error.message)"
        page = new_page()
        page.goto(f"{origin}/client.html")
        assert page.evaluate(connect, url) == "in"
        page.goto(origin.replace("127.0.0.1", "localhost") + "/client.html")
        assert page.evaluate(connect, url).startswith("closed 1006")
        assert "is not allowed" in server.log


def test_same_origin_refuses_a_page_from_elsewhere(page: Any) -> None:
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true }\n'
    with Server(midge_command(), config) as server:
        connect = "(url) => new Client(url).connect().then(() => 'in', (error) => error.message)"
        assert page.evaluate(connect, url_of(server)).startswith("closed 1006")
        assert "is not the host's" in server.log


def test_a_cookie_lets_the_page_in(new_page: Callable[..., Any], origin: str) -> None:
    config = """
        authorization { users: [ {user: web, password: "s3cret"} ] }
        websocket { listen: "127.0.0.1:-1", no_tls: true, user_cookie: u, pass_cookie: p }
    """
    connect = "(url) => new Client(url).connect().then(() => 'in', (error) => error.message)"
    with Server(midge_command(), config) as server:
        page = new_page()
        page.goto(f"{origin}/client.html")
        assert "Authorization Violation" in page.evaluate(connect, url_of(server))
        cookies = {"u": "web", "p": "s3cret"}
        page.context.add_cookies(
            [{"name": name, "value": value, "url": origin} for name, value in cookies.items()]
        )
        assert page.evaluate(connect, url_of(server)) == "in"


def test_tokens_of_the_websocket_block(page: Any) -> None:
    config = """
        authorization { user: backend, password: b }
        websocket { listen: "127.0.0.1:-1", no_tls: true, authorization { token: web } }
    """
    connect = """([url, options]) =>
        new Client(url).connect(options).then(() => 'in', (error) => error.message)"""
    with Server(midge_command(), config) as server:
        assert page.evaluate(connect, [url_of(server), {"auth_token": "web"}]) == "in"
        refused = page.evaluate(connect, [url_of(server), {"user": "backend", "pass": "b"}])
        assert "Authorization Violation" in refused


def test_over_tls(new_page: Callable[..., Any], origin: str) -> None:
    authority = Authority()
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate, key = authority.issue("CN=server", [loopback])
    config = """
        websocket {
          listen: "127.0.0.1:-1"
          tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }
        }
    """
    files = {"cert.pem": pem(certificate), "key.pem": key}
    with Server(midge_command(), config, files=files) as server:
        page = new_page(ignore_https_errors=True)
        page.goto(f"{origin}/client.html")
        script = """async (url) => {
            const nats = await new Client(url).connect();
            const got = new Promise((done) => nats.subscribe("a", done));
            nats.publish("a", "over TLS");
            return (await got).text;
        }"""
        assert page.evaluate(script, url_of(server, "wss")) == "over TLS"
