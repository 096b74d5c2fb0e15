"""Every page of the console with real traffic: its actions, hostile names, keyboard and access."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import nats
import pytest

from .harbour import ACCOUNT, HOSTILE, HOSTILE_STREAM, PAGES, TOKEN, Harbour, visit
from .scene import NAMES
from .test_console import TIMEOUT_S, say, text, unlock, wait_for, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
FAULTS = """axe.run(document, {resultTypes: ["violations"]}).then(({violations}) =>
  violations.flatMap(({id, nodes}) => nodes.map((one) => [id, one.html, one.failureSummary])))"""
WIDTHS = {1280: "light", 768: "dark", 390: "light"}

# What shows a hostile name on each page; its links have plain names only.
SHOWS = {
    "overview": "server",
    "clients": "client",
    "accounts": "account-list",
    "subjects": "group-list",
    "links": "server",
    "messages": "tail",
    "streams": "stream-list",
    "buckets": "keys",
    "objects": "object-list",
}


@pytest.fixture(scope="module")
def harbour(chromium: Any) -> Iterator[Harbour]:
    with Harbour() as harbour:
        yield harbour


@pytest.fixture
def open_harbour(harbour: Harbour, new_page: Callable[..., Page]) -> Callable[..., Page]:
    """Open its console, unlocked."""

    def make(**choices: Any) -> Page:
        page = new_page(**choices)
        page.set_default_timeout(1000 * TIMEOUT_S)
        page.goto(harbour.url)
        unlock(page, TOKEN)
        return page

    return make


def from_outside(work: Coroutine[Any, Any, Any]) -> Any:
    """Run `work` in a loop of its own; Playwright's is in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(60)


@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_and_every_page_fits(
    harbour: Harbour, open_harbour: Callable[..., Page], width: int
) -> None:
    page = open_harbour(viewport={"width": width, "height": 900}, color_scheme=WIDTHS[width])
    page.evaluate(AXE)
    found = {}
    for name in PAGES:
        visit(page, name)
        if name == "messages":
            page.click("#follow")  # nothing changes while axe looks
        found[name] = page.evaluate(FAULTS)
        wait_for(page, f"document.documentElement.scrollWidth <= {width + 1}")
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert page.complaints == []  # type: ignore[attr-defined]


def test_hostile_names_are_text_on_every_page(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    for name in PAGES:
        visit(page, name)
        if name == "messages":
            watch(page, "odd.>")
            harbour.publish(f"odd.{HOSTILE}", HOSTILE.encode(), f"N: {HOSTILE}\r\n".encode())
        expected = HOSTILE_STREAM if name == "streams" else HOSTILE
        wait_for(
            page, f"document.getElementById('{SHOWS[name]}').textContent.includes({expected!r})"
        )
        assert page.evaluate("window.hacked") is None, name
        assert page.locator("img, svg, iframe, [onload], [onerror]").count() == 0, name
    page.goto(f"{harbour.url}#clients/%")  # is no encoded text
    wait_for(page, say(page, "client-list", "cranes"))
    assert page.complaints == []  # type: ignore[attr-defined]


def test_another_tail_shows_nothing_of_the_last_one(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    visit(page, "messages")
    wait_for(page, say(page, "tailing", "seen"))
    page.fill("#subject", "odd.>")
    shown = page.evaluate(
        "(document.getElementById('follow').click(), "
        "document.getElementById('tailing').textContent)"
    )
    assert shown == "● starting"
    wait_for(page, say(page, "tailing", "0 seen"))


def test_clients_are_found_looked_at_and_disconnected_by_the_keyboard(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    with socket.create_connection(harbour.server.address(), timeout=60) as client:
        client.sendall(b'CONNECT {"name":"stowaway"}\r\nSUB hold.> crew 1\r\nPING\r\n')
        page.click("#tabs button[data-page=clients]")
        page.fill("#clients-search", "STOW")
        page.keyboard.press("Enter")
        wait_for(page, "document.querySelectorAll('#client-list tr.choice').length === 1")
        page.locator("#client-list tr.choice button").press("Enter")
        wait_for(page, say(page, "client-subscriptions", "hold.>"))
        assert "visitor" in text(page, "#client-facts")
        for _ in range(2):  # the first one asks
            page.locator("#disconnect").press("Enter")
        wait_for(page, say(page, "disconnected", "disconnected"))
        while client.recv(4096):
            pass
    page.select_option("#clients-state", "closed")
    wait_for(page, say(page, "client-list", "Kicked"))
    page.fill("#clients-search", "")
    wait_for(page, say(page, "client-list", "Maximum Message Payload"))
    wait_for(page, say(page, "client-facts", "Kicked"))
    page.click("#tabs button[data-page=overview]")
    wait_for(page, say(page, "limits", "payload"))


def test_subjects_groups_and_links(harbour: Harbour, open_harbour: Callable[..., Page]) -> None:
    page = open_harbour()
    page.goto(f"{harbour.url}#subjects/berths")
    page.select_option("#subjects-account", ACCOUNT)
    page.fill("#subjects-prefix", "berths")
    page.keyboard.press("Enter")
    wait_for(page, say(page, "subject-list", "berths.assign"))
    wait_for(page, say(page, "group-list", "even"))
    page.locator("#group-list tr.choice button").press("Enter")
    wait_for(page, "document.querySelectorAll('#members tbody tr').length === 4")
    wait_for(page, say(page, "members", "25.0 %"))
    page.click("#subjects-up")
    wait_for(page, say(page, "subject-list", "ships"))
    rate = (
        "Number([...document.querySelectorAll('#subject-list tr')].find((row) => "
        "row.textContent.startsWith('ships')).lastChild.textContent.split(' ')[0]) > 0"
    )
    wait_for(page, rate)


def test_a_tail_pauses_filters_and_folds_and_a_request_is_timed(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    visit(page, "messages")
    watch(page, "quiet.>")
    page.fill("#to", "quiet.1")
    page.fill("#headers", "Priority: 1\nNote: a: b")
    page.fill("#payload", '{"ship": {"name": "Ada"}}')
    page.click("#send")
    wait_for(page, say(page, "tail", "[Priority: 1; Note: a: b]"))
    line = page.locator("#tail div", has_text="[Priority: 1")
    line.locator("summary").press("Enter")
    assert '"name": "Ada"\n' in line.locator("pre").inner_text()
    page.fill("#tail-filter", "nothing")
    assert page.locator("#tail div:visible").count() == 0
    page.fill("#tail-filter", "")
    page.locator("#pause").press("Enter")
    page.fill("#payload", "later")
    page.click("#send")
    wait_for(page, say(page, "tailing", "2 seen, 0 left out, paused"))
    assert "later" not in text(page, "#tail")
    page.locator("#pause").press("Enter")
    wait_for(page, say(page, "tail", "later"))
    page.fill("#headers", "no header")
    page.click("#request")
    wait_for(page, say(page, "published", "a header is written as Name: value"))
    page.fill("#headers", "")
    page.fill("#to", "$JS.API.INFO")
    page.fill("#payload", "")
    page.click("#request")
    wait_for(page, say(page, "published", "ms in the server"))
    wait_for(page, say(page, "answer", "account_info_response"))


def test_buckets_and_objects_are_made_changed_and_deleted(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    visit(page, "buckets")
    page.fill("#bucket-name", "prices")
    page.fill("#bucket-history", "3")
    page.keyboard.press("Enter")
    page.locator("#bucket-list button", has_text="prices").press("Enter")
    for value in ("1", "2"):
        page.fill("#edit-key", "fee")
        page.fill("#edit-value", value)
        page.locator("#edit button", has_text="Put").press("Enter")
        wait_for(page, say(page, "edited", f"revision {value}"))
    for _ in range(2):
        page.locator("#purge-key").press("Enter")
    wait_for(page, say(page, "edited", "purged, as revision 3"))
    wait_for(page, say(page, "keys", "(purge)"))
    visit(page, "objects")
    page.fill("#object-name", "letter")
    page.fill("#object-text", "æ" * 40_000)
    page.locator("#put-object button", has_text="Put").press("Enter")
    wait_for(page, say(page, "object-done", "stored 80000 bytes in 2 chunks"))

    async def read(name: str) -> Any:
        async with await nats.connect(harbour.server.url) as client:
            papers = await client.jetstream().object_store("papers")
            return (await papers.get(name)).data

    assert from_outside(read("letter")) == ("æ" * 40_000).encode()  # with a right digest
    page.locator("#object-list button", has_text="letter").press("Enter")
    wait_for(page, "document.getElementById('object-text').value.length === 40000")
    for _ in range(2):
        page.locator("#delete-object").press("Enter")
    wait_for(page, say(page, "object-done", "deleted letter"))
    with pytest.raises(nats.js.errors.NotFoundError):
        from_outside(read("letter"))


def test_streams_and_consumers_are_edited_and_deleted(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    visit(page, "streams")
    page.fill("#create-name", "EDITED")
    page.fill("#create-subjects", "edited.>")
    page.fill("#create-max", "7")
    page.keyboard.press("Enter")
    page.locator("#stream-list button", has_text="EDITED").press("Enter")
    wait_for(page, "document.getElementById('config-text').value.includes('\"max_msgs\": 7')")
    config = page.input_value("#config-text")
    page.fill("#config-text", config.replace('"max_msgs": 7', '"max_msgs": 8'))
    page.locator("#config button", has_text="Save").press("Enter")
    wait_for(page, say(page, "configured", "saved stream EDITED"))
    page.fill("#config-text", "{")
    page.locator("#config button", has_text="Save").press("Enter")
    wait_for(page, say(page, "configured", "this is no JSON"))
    page.click("#config-new")
    page.locator("#config button", has_text="Save").press("Enter")
    wait_for(page, say(page, "configured", "saved consumer workers"))
    page.locator("#consumers button", has_text="workers").press("Enter")
    wait_for(page, say(page, "config-of", "consumer workers"))
    for _ in range(2):
        page.locator("#delete-consumer").press("Enter")
    wait_for(page, say(page, "purged", "deleted consumer workers"))
    page.click("#delete-stream")
    wait_for(page, say(page, "purged", "write the name of the stream, EDITED"))
    page.fill("#purge-name", "EDITED")
    page.locator("#delete-stream").press("Enter")
    wait_for(page, say(page, "created", "deleted EDITED"))
    wait_for(page, "!document.getElementById('stream-list').textContent.includes('EDITED')")


def test_the_last_hour_comes_from_the_server(
    harbour: Harbour, open_harbour: Callable[..., Page]
) -> None:
    page = open_harbour()
    page.select_option("#period", "hour")
    wait_for(page, "lastHour().then(({messages}) => messages[1].some((rate) => rate > 100))")
    wait_for(page, "lastHour().then(({connections}) => connections[0].at(-1) >= 6)")
    assert page.complaints == []  # type: ignore[attr-defined]


def test_every_page_of_a_server_with_workers(chromium: Any, new_page: Callable[..., Page]) -> None:
    page = new_page(viewport={"width": 768, "height": 900})
    page.set_default_timeout(1000 * TIMEOUT_S)
    with Harbour(workers=2) as harbour:
        page.goto(harbour.url)
        unlock(page, TOKEN)
        wait_for(page, "document.querySelectorAll('#tabs button').length === 9")
        tops = "new Set([...document.querySelectorAll('#tabs button')].map((one) => one.offsetTop))"
        assert page.evaluate(f"{tops}.size") == 1
        for name in PAGES:
            visit(page, name)
        page.click("#tabs button[data-page=clients]")
        for name in NAMES:  # two are in each process
            wait_for(page, say(page, "client-list", name))
        page.locator("#client-list tr.choice", has_text="leaf node").wait_for()
        for name in NAMES[:2]:
            page.locator("#client-list tr.choice", has_text=name).locator("button").press("Enter")
            wait_for(page, say(page, "client-name", name))
            wait_for(page, say(page, "client-subscriptions", "berths.assign"))
        page.click("#tabs button[data-page=subjects]")
        page.locator("#group-list tr.choice button", has_text="berths.assign").press("Enter")
        wait_for(page, "document.querySelectorAll('#members tbody tr').length === 4")
        wait_for(page, say(page, "members", "25.0 %"))
    assert page.complaints == []  # type: ignore[attr-defined]
