"""The web console in a browser: what it shows, tails and publishes, and what it does not do."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import Server, midge_command

from .scene import NAMES, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

CONFIG = """\
[websocket]
host = "127.0.0.1"
port = -1
no_tls = true

[monitoring.console]
enabled = true
token = "{token}"
"""
TIMEOUT_S = 20.0
HOSTILE = "<img src=x onerror='window.hacked=1'>"


@pytest.fixture
def open_console(tmp_path: Path, new_page: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Open the console of a new server; give the page and the server."""
    servers = []

    def make(token: str = "let me", **choices: Any) -> tuple[Any, Server]:
        config = tmp_path / "midge.toml"
        config.write_text(CONFIG.format(token=token))
        server = Server(midge_command(), flags=("-c", str(config), "-m", "-1")).wait_ready()
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


def test_it_shows_who_is_there_and_what_passes(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    with Scene(server.url):
        wait_for(page, "document.getElementById('clients').textContent.includes('customs')")
        wait_for(page, "Math.max(0, ...rates.messages[1]) > 10")
        clients, interest = text(page, "#clients"), text(page, "#interest")
        assert all(name in clients for name in NAMES)
        assert "ships.>" in interest
        assert "berths.assign" in interest
        assert text(page, "#health") == "● serving"
        wait_for(page, "document.getElementById('tail').textContent.includes('ships.moored')")
        assert '{"ship": ' in text(page, "#tail")
    assert page.complaints == []
    own = server.address("monitoring")[1], server.address("websocket")[1]
    assert all(any(f":{port}/" in url for port in own) for url in page.asked), page.asked


def test_a_tail_follows_its_subject(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    page.fill("#subject", "berths.*")
    page.click("#watch button")
    with Scene(server.url):
        wait_for(page, "document.getElementById('tail').childElementCount > 3")
    before = text(page, "#tail").splitlines()
    subjects = {line.split(" ")[0] for line in before[-2:]}
    assert subjects == {"berths.assign"}


def test_who_reads_further_up_is_left_there(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    lines = "document.getElementById('tail').childElementCount"
    with Scene(server.url):
        wait_for(page, f"{lines} > 60")
        page.evaluate("document.getElementById('tail').scrollTop = 0")
        wait_for(page, f"{lines} > 120")
        assert page.evaluate("document.getElementById('tail').scrollTop") == 0
    page.click("#clear")
    assert page.evaluate(lines) < 20


def test_it_says_when_there_are_more_clients_than_rows(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    address = server.address()
    with contextlib.ExitStack() as stack:
        for _ in range(55):
            stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
        wait_for(page, "document.getElementById('clients-shown').textContent !== ''")
        assert text(page, "#clients-shown") == "· the busiest 50 of 56"


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


def test_publishing_is_locked_until_the_token_is_given(open_console: Callable[..., Any]) -> None:
    page, _ = open_console()
    wait_for(page, "document.getElementById('socket').textContent.includes('connected')")
    assert page.is_disabled("#send")
    page.fill("#token", "wrong")
    page.click("#unlock button")
    wait_for(page, "document.getElementById('lock').textContent.includes('wrong token')")
    assert page.is_disabled("#send")
    page.fill("#token", "let me")
    page.click("#unlock button")
    wait_for(page, "!document.getElementById('send').disabled")
    page.fill("#to", "greetings")
    page.fill("#payload", "hællo\nworld " + HOSTILE)
    page.click("#send")
    wait_for(page, "document.getElementById('tail').textContent.includes('greetings')")
    assert f"greetings hællo\nworld {HOSTILE}" in text(page, "#tail")
    assert page.evaluate("window.hacked") is None


def test_without_a_token_it_only_looks(open_console: Callable[..., Any]) -> None:
    page, _ = open_console(token="")
    wait_for(page, "document.getElementById('socket').textContent.includes('connected')")
    assert "read-only" in text(page, "#lock")
    assert page.is_hidden("#unlock")
    assert page.is_disabled("#send")


def test_a_server_that_goes_is_noticed(open_console: Callable[..., Any]) -> None:
    page, server = open_console()
    wait_for(page, "document.getElementById('socket').textContent.includes('connected')")
    server.stop()
    wait_for(page, "document.getElementById('socket').textContent.includes('Server Shutdown')")
    wait_for(page, "document.getElementById('health').className === 'bad'")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(open_console: Callable[..., Any], width: int) -> None:
    page, server = open_console(viewport={"width": width, "height": 844})
    with Scene(server.url):
        wait_for(page, "document.getElementById('clients').textContent.includes('customs')")
        wait_for(page, f"document.documentElement.scrollWidth <= {width + 1}")


def test_a_tail_that_broke_off_comes_back(open_console: Callable[..., Any]) -> None:
    page, _ = open_console()
    wait_for(page, "document.getElementById('socket').textContent.includes('connected')")
    page.evaluate("socket.close(4000, 'broken off')")
    wait_for(page, "document.getElementById('socket').textContent.includes('closed')")
    wait_for(page, "document.getElementById('socket').textContent.includes('connected')")
