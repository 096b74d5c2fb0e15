"""The web console in a browser: what it shows, tails and publishes, and what it does not do."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import Server, midge_command

from .scene import NAMES, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

CONFIG = """\
[monitoring.console]
enabled = true
token = "{token}"

[jetstream]
enabled = true
in_memory = true
"""
TOKEN = "let me"
TIMEOUT_S = 120.0
HOSTILE = "<img src=x onerror='window.hacked=1'>"


@pytest.fixture
def open_console(tmp_path: Path, new_page: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Open the console of a new server; give the page and the server."""
    servers = []

    def make(token: str = TOKEN, http_port: int = -1, **choices: Any) -> tuple[Any, Server]:
        config = tmp_path / "midge.toml"
        config.write_text(CONFIG.format(token=token))
        flags = ("-c", str(config), "-m", str(http_port))
        server = Server(midge_command(), flags=flags).wait_ready()
        servers.append(server)
        host, port = server.address("monitoring")
        page = new_page(**choices)
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(f"http://{host}:{port}/console")
        return page, server

    yield make
    for server in servers:
        server.stop()


def wait_for(page: Any, condition: str) -> None:
    """Wait until `condition` holds; asked from outside, as the page's policy forbids `eval`."""
    deadline = time.monotonic() + TIMEOUT_S
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, (condition, page.complaints)
        page.wait_for_timeout(20)


def text(page: Any, selector: str) -> str:
    return page.text_content(selector)  # type: ignore[no-any-return]


def unlock(page: Any, token: str = TOKEN) -> None:
    """Give the console its token."""
    wait_for(page, "!document.getElementById('unlock').hidden")
    page.fill("#token", token)
    page.click("#unlock button")
    wait_for(page, "document.getElementById('lock').textContent !== ''")


def open_page(page: Any, name: str) -> None:
    """Go to a page of the console."""
    page.click(f"#tabs button[data-page={name}]")


def watch(page: Any, subject: str) -> None:
    """Begin a tail."""
    open_page(page, "messages")
    page.fill("#subject", subject)
    page.click("#follow")
    wait_for(page, "document.getElementById('tailing').textContent.includes('seen')")


def say(page: Any, element: str, what: str) -> str:
    return f"document.getElementById('{element}').textContent.includes({what!r})"


def test_it_shows_who_is_there_and_what_passes(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    with Scene(server.url):
        wait_for(page, "Math.max(0, ...rates.messages[1]) > 10")
        open_page(page, "clients")
        wait_for(page, say(page, "client-list", "customs"))
        clients = text(page, "#client-list")
        assert all(name in clients for name in NAMES)
        open_page(page, "subjects")
        wait_for(page, say(page, "subject-list", "ships"))
        wait_for(page, say(page, "group-list", "berths.assign berths"))
        assert text(page, "#health") == "● serving"
        unlock(page)
        watch(page, ">")
        wait_for(page, "document.getElementById('tail').textContent.includes('ships.moored')")
        assert '{"ship": ' in text(page, "#tail")
    assert page.complaints == []
    own = f":{server.address('monitoring')[1]}/"
    assert all(own in url for url in page.asked), page.asked


def test_opening_it_changes_nothing(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    wait_for(page, "rates.messages[0].length > 1")
    unlock(page)
    for name in page.evaluate("Object.keys(pages)"):
        open_page(page, name)
        wait_for(page, say(page, "health", "serving"))
    watch(page, ">")
    wait_for(page, "document.getElementById('behind').textContent === 'none'")
    assert text(page, "#connections") == "0"
    assert text(page, "#subscriptions") == "0"  # JetStream's own are not a client's
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as client:
        client.sendall(
            b'CONNECT {"headers":true,"no_responders":true}\r\nSUB i 1\r\nPUB a i 0\r\n\r\n'
        )
        received = b""
        while b"503" not in received:  # a tail is no responder on `a`
            received += client.recv(4096)
    page.reload()
    open_page(page, "overview")
    wait_for(page, "rates.messages[0].length > 1")
    assert "ERR" not in server.log
    assert page.complaints == []


def test_the_axis_of_an_idle_server_is_a_line(open_console: Callable[..., Any]) -> None:
    page, _ = open_console()
    shown = "[0, 0.5, 3, 120].map((value) => [ceiling(value), short(ceiling(value) / 2)].join())"
    assert page.evaluate(shown) == ["0,0", "0.5,0.3", "5,2.5", "200,100"]


def test_a_tail_follows_its_subject_until_it_is_stopped(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    unlock(page)
    watch(page, "berths.*")
    with Scene(server.url):
        wait_for(page, "document.getElementById('tail').childElementCount > 3")
        assert text(page, "#follow") == "Stop"
        page.click("#follow")
        assert text(page, "#follow") == "Watch"
    subjects = page.evaluate("[...document.querySelectorAll('#tail b')].map((b) => b.textContent)")
    assert set(subjects) == {"berths.assign "}


def test_a_tail_says_what_is_wrong_and_what_it_leaves_out(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    open_page(page, "messages")
    page.fill("#subject", "a")
    page.click("#follow")
    wait_for(page, say(page, "tailing", "the console's token is needed"))
    unlock(page)
    page.fill("#subject", "a b")
    page.click("#follow")
    wait_for(page, say(page, "tailing", "it has a blank in it"))
    watch(page, "a")
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as client:
        client.sendall(b"CONNECT {}\r\n" + b"PUB a 1\r\nx\r\n" * 5000 + b"PING\r\n")
        wait_for(page, say(page, "tail", "left out"))
        wait_for(page, say(page, "tailing", "5.0 k seen"))


def test_who_reads_further_up_is_left_there(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    lines = "document.getElementById('tail').childElementCount"
    unlock(page)
    watch(page, ">")
    with Scene(server.url):
        wait_for(page, f"{lines} > 60")
        page.evaluate("document.getElementById('tail').scrollTop = 0")
        wait_for(page, f"{lines} > 120")
        assert page.evaluate("document.getElementById('tail').scrollTop") == 0
    page.click("#follow")
    page.click("#clear")
    assert page.evaluate(lines) == 0


def test_it_says_when_there_are_more_clients_than_rows(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    address = server.address()
    with contextlib.ExitStack() as stack:
        for _ in range(55):
            stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
        open_page(page, "clients")
        wait_for(page, say(page, "clients-pager", "1 to 50 of 55"))
        page.click("#clients-pager button[aria-label^=next]")
        wait_for(page, say(page, "clients-pager", "51 to 55 of 55"))
        wait_for(page, "document.querySelectorAll('#client-list tr.choice').length === 5")


def test_rates_are_written_out_and_times_are_brief(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    with Scene(server.url):
        # From a thousand on it is written as `1.2 k`.
        wait_for(page, "rates.messages[1].at(-1) > 10")
        shown = "document.getElementById('messages-out').textContent"
        wait_for(page, f"{shown} === short(rates.messages[1].at(-1))")
        assert page.evaluate("brief('92.257356ms')") == "92.3ms"
        assert [page.evaluate(f"brief('{time}')") for time in ("3s", "1m2.5s", "")] == [
            "3s",
            "1m2.5s",
            "",
        ]


def test_publishing_says_what_came_of_it(open_console: Callable[..., Any]) -> None:
    page, _ = open_console()
    wait_for(page, "!document.getElementById('unlock').hidden")
    open_page(page, "messages")
    page.fill("#to", "greetings")
    page.fill("#payload", "hællo\nworld " + HOSTILE)
    page.click("#send")
    wait_for(page, say(page, "published", "not sent: locked"))
    page.fill("#token", "wrong")
    page.click("#unlock button")
    wait_for(page, say(page, "lock", "wrong token"))
    unlock(page)
    watch(page, ">")
    page.click("#send")
    wait_for(page, say(page, "published", "to greetings, taken by nobody"))
    wait_for(page, "document.getElementById('tail').textContent.includes('greetings')")
    assert f"greetings hællo\nworld {HOSTILE}" in text(page, "#tail")
    assert page.evaluate("window.hacked") is None
    page.fill("#to", " greetings")
    page.click("#send")
    wait_for(page, say(page, "published", "it has a blank in it"))


def test_without_a_token_it_only_looks(open_console: Callable[..., Any]) -> None:
    page, _ = open_console(token="")
    wait_for(page, say(page, "lock", "read-only"))
    assert page.is_hidden("#unlock")
    open_page(page, "messages")
    page.fill("#to", "greetings")
    page.click("#send")
    wait_for(page, say(page, "published", "read-only: no token is configured"))


def test_a_server_that_goes_is_noticed_and_a_tail_comes_back(
    open_console: Callable[..., Any],
) -> None:
    page, server = open_console()
    port = server.address("monitoring")[1]
    unlock(page)
    watch(page, ">")
    server.stop()
    wait_for(page, say(page, "health", "the server cannot be reached; trying again"))
    wait_for(page, say(page, "tailing", "the server cannot be reached; trying again"))
    _, again = open_console(http_port=port)
    wait_for(page, "document.getElementById('health').textContent === '● serving'")
    with Scene(again.url):
        wait_for(page, say(page, "tail", "ships.moored"))
    assert text(page, "#tail").count("did not run is missing") == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(open_console: Callable[..., Any], width: int) -> None:
    page, server = open_console(viewport={"width": width, "height": 844})
    with Scene(server.url):
        open_page(page, "clients")
        wait_for(page, say(page, "client-list", "customs"))
        wait_for(page, f"document.documentElement.scrollWidth <= {width + 1}")


def test_streams(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    unlock(page)
    page.click("#tabs button[data-page=streams]")
    wait_for(page, say(page, "streams-shown", "there are none"))
    page.fill("#create-name", "ORDERS")
    page.fill("#create-subjects", "orders.>, invoices")
    page.select_option("#create-storage", "memory")
    page.click("#create button")
    wait_for(page, say(page, "created", "created ORDERS"))
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as client:
        body = json.dumps({"item": HOSTILE, "number": 1})
        for number in range(60):
            subject = f"orders.{number % 2}"
            client.sendall(f"PUB {subject} {len(body)}\r\n{body}\r\n".encode())
        config = {"durable_name": "workers", "ack_policy": "explicit"}
        made = json.dumps({"stream_name": "ORDERS", "config": config})
        client.sendall(
            f"PUB $JS.API.CONSUMER.CREATE.ORDERS.workers i {len(made)}\r\n{made}\r\n".encode()
        )
        wait_for(page, say(page, "stream-list", "60"))
        page.click("#stream-list tr.choice")
        wait_for(page, say(page, "consumers", "workers"))
    wait_for(page, say(page, "consumers", "60"))
    page.fill("#search-subject", "orders.1")
    page.fill("#search-seq", "1")
    page.click("#search button")
    count = "document.querySelectorAll('#found .message').length"
    wait_for(page, f"{count} === 30")
    page.fill("#search-subject", "")
    page.click("#search button")
    wait_for(page, f"{count} === 50")
    page.click("#search-next")
    wait_for(page, f"{count} === 10")
    assert '"number": 1' in text(page, "#found")
    assert page.evaluate("window.hacked") is None
    page.click("#purge button")
    wait_for(page, say(page, "purged", "write the name of the stream"))
    page.fill("#purge-name", "ORDERS")
    page.fill("#purge-subject", "orders.1")
    page.click("#purge button")
    wait_for(page, say(page, "purged", "purged 30 messages"))
    assert page.complaints == []


def test_buckets(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as client:
        config = json.dumps(
            {"name": "KV_shop", "subjects": ["$KV.shop.>"], "max_msgs_per_subject": 5}
        )
        client.sendall(
            f"PUB $JS.API.STREAM.CREATE.KV_shop i {len(config)}\r\n{config}\r\n".encode()
        )
        unlock(page)
        page.click("#tabs button[data-page=buckets]")
        wait_for(page, say(page, "bucket-list", "shop"))
        client.sendall(b"PUB $KV.shop.limit 1\r\n3\r\nPING\r\n")
        wait_for(page, say(page, "bucket-list", "shop11"))  # one key and one value
        page.click("#bucket-list tr.choice")
        wait_for(page, say(page, "keys", "limit"))
        page.click("#keys tr.choice")
        wait_for(page, say(page, "history-of", "of limit"))
        assert page.input_value("#edit-value") == "3"
        client.sendall(b"PUB $KV.shop.limit 1\r\n4\r\nPING\r\n")
        wait_for(page, say(page, "bucket-list", "shop12"))
        page.fill("#edit-value", "5")
        page.click("#edit button")
        wait_for(page, say(page, "edited", "another revision by now"))
        page.click("#keys tr.choice")
        wait_for(page, "document.getElementById('edit-value').value === '4'")
        page.fill("#edit-value", "5")
        page.click("#edit button")
        wait_for(page, say(page, "edited", "revision 3"))
        wait_for(page, say(page, "keys", "5"))
        page.click("#delete")
        wait_for(page, say(page, "delete", "Really delete limit?"))
        page.focus("#edit-key")  # takes the question back
        wait_for(page, "document.getElementById('delete').textContent === 'Delete'")
        page.click("#delete")
        page.click("#delete")
        wait_for(page, say(page, "edited", "deleted, as revision 4"))
        wait_for(page, say(page, "keys", "(del)"))
        page.fill("#edit-key", "color")
        page.fill("#edit-value", "red")
        page.click("#edit button")
        wait_for(page, say(page, "keys", "color"))


def test_the_keyboard_and_the_address(open_console: Callable[..., Any]) -> None:
    page, server = open_console(viewport={"width": 390, "height": 844})
    page.click("#tabs button[data-page=streams]")
    wait_for(page, say(page, "stream-list", "nothing yet"))
    assert page.get_attribute("#create button", "class") == "locked"
    config = json.dumps({"name": "ORDERS", "subjects": ["orders.>"]})
    with socket.create_connection(server.address(), timeout=TIMEOUT_S) as client:
        client.sendall(
            f"PUB $JS.API.STREAM.CREATE.ORDERS i {len(config)}\r\n{config}\r\nPING\r\n".encode()
        )
        wait_for(page, say(page, "stream-list", "ORDERS"))
    page.focus("#stream-list tr.choice button")
    page.keyboard.press("Enter")
    wait_for(page, say(page, "stream-name", "ORDERS"))
    wait_for(page, "location.hash === '#streams/ORDERS'")
    page.evaluate(
        "window.looks = 0; const old = pages.streams; "
        "pages.streams = async () => { await old(); window.looks += 1; }"
    )
    wait_for(page, "window.looks > 2")
    assert page.evaluate("document.activeElement.dataset.key") == "ORDERS"  # new rows, same focus
    cells = page.locator("#stream-list tr.choice td")
    assert all(box["x"] + box["width"] <= 390 for one in cells.all() if (box := one.bounding_box()))
    page.reload()
    wait_for(page, say(page, "stream-name", "ORDERS"))
    assert page.is_visible("#streams")
    page.go_back()
    unlock(page)
    assert page.get_attribute("#send", "class") == ""
    assert page.complaints == []
