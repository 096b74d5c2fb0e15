"""The report: its contents without a browser, and its rendering in one."""

import csv
import re
import shutil
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from midge.pipeline.errors import PipelineError
from midge.pipeline.lake.tables import GOLD, LakeError
from midge.pipeline.report.page import (
    format_bytes,
    headline,
    read_gold,
    render,
    write_csv,
    write_report,
)
from tests.support.chromium import launched

START = datetime(2026, 3, 2, 8, 0)  # noqa: DTZ001 - as the tables give it
HOSTILE = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=1</script>"


def client(cid, name):
    return {"server": "s1", "account": "$G", "cid": cid, "client_name": name}


def sample():
    """A little of everything, with text that tries to be markup."""
    latency = {"p50_us": 900, "p90_us": 2000, "p99_us": 12_345, "max_us": 20_000}
    subscription = {"sid": "1", "pattern": HOSTILE, "queue": None, "since": START, "until": None}
    return {
        "rates": [
            {
                "window_start": START + timedelta(minutes=minute),
                "account": "$G",
                "prefix": prefix,
                "messages": 60 * (minute + 1),
                "bytes": 6000,
                "deliveries": 60,
                "messages_per_s": minute + 1.0,
                "bytes_per_s": 100.0,
            }
            for minute in range(5)
            for prefix in ("fleet.>", HOSTILE)
        ],
        "subjects": [
            {
                "account": "$G",
                "subject": subject,
                "messages": 100 - place,
                "bytes": 5,
                "place": place,
                "first_time": START,
                "last_time": START + timedelta(minutes=5),
            }
            for place, subject in enumerate(["fleet.eu", HOSTILE, "a.b"], 1)
        ],
        "talkers": [client(1, HOSTILE) | {"messages": 9, "place": 1}],
        "fan_out": [
            {"deliveries": 0, "messages": 250, "bytes": 1024},
            {"deliveries": 2, "messages": 750, "bytes": 2048},
        ],
        "no_interest": [{"account": "$G", "subject": HOSTILE, "messages": 250}],
        "latency": [{"subject": HOSTILE, "reply_prefix": "_INBOX.>", "requests": 5} | latency],
        "queue_balance": [
            client(cid, f"m{cid}")
            | {"queue": HOSTILE, "pattern": "a", "share": share, "fair_share": 0.5}
            for cid, share in ((1, 0.7), (2, 0.3))
        ],
        "dead_subscriptions": [
            client(cid, HOSTILE) | subscription | {"age_s": 61.5} for cid in range(300)
        ],
        "duplicate_subscriptions": [],
        "disconnects": [{"reason": HOSTILE, "disconnects": 3}],
        "slow_consumers": [],
        "consumers": [
            {"stream": HOSTILE, "consumer": "c", "messages": 9, "redelivered": 1}
            | {"max_deliveries": 2, "lag": 4321, "max_lag": 5000}
        ],
        "late_data": [{"batch": 0, "messages": 10, "late_messages": 2}],
        "reconciliation": [
            {"server": "s", "account": "$G", "recorded": 10, "matched": 9, "difference": 1}
        ],
        "coverage": [covered("s1", 1000, 1000, 4, 4)],
    }


def covered(server, messages, counted, subscriptions=0, sessions=0):
    return {
        "server": server,
        "account": "$G",
        "messages": messages,
        "counted": counted,
        "subscriptions": subscriptions,
        "sessions": sessions,
    }


def listened():
    """Return the report of records of `midge record`: messages, and nothing about clients."""
    empty = {name: [] for name in sample()}
    kept = {name: sample()[name] for name in ("rates", "subjects", "latency", "late_data")}
    uncounted = [{"deliveries": None, "messages": 297, "bytes": 15}]
    return empty | kept | {"fan_out": uncounted, "coverage": [covered("nats", 297, 0)]}


def section(document, name):
    return document.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_nothing_in_it_points_at_the_network():
    without_plotly = re.sub(r"<script>/\*\*.*?</script>", "", render(sample()), flags=re.DOTALL)
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", without_plotly)
    assert "@import" not in without_plotly


def test_text_from_peers_is_no_markup():
    document = render(sample())
    assert "<img src=x" not in document
    assert "&lt;img src=x" in document


def test_the_headline_sums_up():
    figures = dict(headline(sample()))
    assert figures["messages"] == "1,000"
    assert figures["received"] == "3.0 KiB"
    assert figures["deliveries per message"] == "1.50"
    assert figures["messages to nobody"] == "25.0%"
    assert figures["slowest p99 of replies"] == "12.3 ms"
    gold = sample()
    gold["latency"][0]["p99_us"] = 1_234_567
    pull = gold["latency"][0] | {"subject": "$JS.API.CONSUMER.MSG.NEXT.S.c", "p99_us": 9_000_000}
    gold["latency"].append(pull)
    assert dict(headline(gold))["slowest p99 of replies"] == "1.23 s"


def test_empty_tables_are_said_to_be_empty_and_long_ones_are_cut():
    document = render(sample())
    assert "Every client kept up." in document
    assert "280 more rows" in document
    assert document.count("<tr><td") == 302
    empty = render({table.name.removeprefix("gold/"): [] for table in GOLD})
    assert "No messages were recorded." in empty


def test_a_table_that_is_far_too_long_says_where_the_rest_is():
    gold = sample()
    gold["dead_subscriptions"] = gold["dead_subscriptions"] * 4
    document = section(render(gold), "dead_subscriptions")
    assert "gold/dead_subscriptions in the lake has 200 more." in document


def test_what_was_not_recorded_is_said_to_be_not_recorded():
    document = render(listened())
    assert "what listens to a server, as midge record does" in document
    figures = dict(headline(listened()))
    for name in ("deliveries per message", "messages to nobody", "publishing clients"):
        assert figures[f"{name}: not recorded"] == "\N{EN DASH}"
    for name in (
        *("talkers", "fan_out", "no_interest", "queue_balance", "dead_subscriptions"),
        *("duplicate_subscriptions", "disconnects", "slow_consumers", "reconciliation"),
    ):
        assert "Not recorded." in section(document, name), name
    for name in ("rates", "subjects", "latency", "late_data"):
        assert "Not recorded." not in section(document, name), name
    for claim in ("reached somebody", "was used", "kept up", "100.0%"):
        assert claim not in document


def test_what_one_of_several_servers_did_not_record_is_named():
    gold = sample()
    gold["coverage"] = [*gold["coverage"], covered("<nats>", 50, 0)]
    gold["fan_out"] = [*gold["fan_out"], {"deliveries": None, "messages": 50, "bytes": 1}]
    document = render(gold)
    assert "Not recorded of &lt;nats&gt;." in section(document, "talkers")
    assert "Not recorded" not in section(document, "latency")
    assert dict(headline(gold))["messages to nobody"] == "25.0%"
    assert "what listens to a server" not in render(sample())


def test_gold_is_read_without_spark(tmp_path):
    for table in GOLD:
        write_deltalake(tmp_path / table.name, pa.table({"n": [1, 2]}))
    assert read_gold(str(tmp_path))["rates"] == [{"n": 1}, {"n": 2}]
    shutil.rmtree(tmp_path / "gold" / "latency")
    with pytest.raises(LakeError, match="has no gold/latency"):
        read_gold(str(tmp_path))
    with pytest.raises(LakeError, match="no such directory"):
        read_gold(str(tmp_path / "nowhere"))
    with pytest.raises(LakeError, match="lake://x"):
        read_gold("lake://x")


def test_a_damaged_gold_table_is_named(tmp_path):
    table = tmp_path / GOLD[0].name
    write_deltalake(table, pa.table({"n": [1]}))
    [part] = table.glob("*.parquet")
    part.write_bytes(b"junk")
    with pytest.raises(LakeError, match=f"{GOLD[0].name} cannot be read: "):
        read_gold(str(tmp_path))


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"report\.html: cannot be written: file exists"):
        write_report(
            {table.name.removeprefix("gold/"): [] for table in GOLD},
            tmp_path / "file" / "report.html",
        )


def test_two_lakes_are_compared():
    before, now = sample(), sample()
    now["subjects"][0]["messages"] += 900
    before["subjects"].append({**before["subjects"][0], "subject": "gone", "messages": 40})
    page = render(now, "now", before, "last week")
    assert "Compared with last week" in page
    rows = re.findall(r'data-name="subject">(.*?)</td>.*?</tr>', page)
    section = page.partition('id="compared"')[2].partition("</section>")[0]
    assert [name for name in rows if name in section][:1]
    changes = re.findall(r'data-name="change">(-?[\d,]+)</td>', section)
    assert changes == ["900", "-40"]
    assert "Compared with" not in render(now)


def test_sizes_are_for_people():
    sizes = [0, 1023, 1024, 5 * 1024**2, 3 * 1024**4]
    assert [format_bytes(size) for size in sizes] == [
        "0 B",
        "1,023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The sample report in headless Chromium, with all that it asked for and complained of."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(sample(), path)
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.requests, page.complaints = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                page.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.set_default_timeout(120_000)
        page.goto(path.as_uri())
        page.wait_for_selector("#plot-late_data .main-svg")
        yield page


@pytest.mark.browser
def test_a_browser_shows_every_plot_and_asks_for_nothing(page):
    drawn = page.eval_on_selector_all(
        "section", "all => all.filter(s => s.querySelector('.main-svg')).map(s => s.id)"
    )
    assert set(drawn) == {
        *("rates", "bytes", "subjects", "talkers", "fan_out", "no_interest", "latency"),
        *("queue_balance", "disconnects", "late_data"),
    }
    assert page.eval_on_selector_all("#subjects .bars path", "all => all.length") == 3
    assert page.eval_on_selector_all(".figure b", "all => all.length") == 8
    asked = [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert asked == []
    assert page.complaints == []


@pytest.mark.browser
def test_hostile_names_stay_text_in_the_browser(page):
    assert page.evaluate("window.hacked") is None
    assert page.eval_on_selector_all("img[src=x]", "all => all.length") == 0
    assert "<img src=x" in page.inner_text("#dead_subscriptions")


@pytest.mark.browser
def test_names_are_escaped_once(page):
    """A label reads as the name does, shortened in the middle."""
    names = page.eval_on_selector_all(
        "#subjects .ytick text", "all => all.map(each => each.textContent)"
    )
    assert names == ["fleet.eu", f"{HOSTILE[:20]}…{HOSTILE[-19:]}", "a.b"]
    legend = page.eval_on_selector_all(
        "#rates .legendtext", "all => all.map(each => each.textContent)"
    )
    assert f"{HOSTILE[:30]}…{HOSTILE[-29:]}" in legend


CUT = """all => all.flatMap(table => [...table.querySelectorAll("td")])
    .filter(cell => cell.getBoundingClientRect().right > document.documentElement.clientWidth
        || cell.scrollWidth > cell.clientWidth + 1).length"""


@pytest.mark.browser
def test_the_page_fits_a_phone_and_cuts_no_table(page):
    assert page.eval_on_selector_all("table", CUT) == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.documentElement.scrollWidth <= 391")
    assert page.eval_on_selector_all("table", CUT) == 0
    page.reload()
    name = "document.querySelectorAll('#subjects .ytick text')[1]?.textContent"
    page.wait_for_function(f"{name}?.length === 20")
    assert page.evaluate(name) == f"{HOSTILE[:10]}…{HOSTILE[-9:]}"
    assert page.evaluate("document.documentElement.scrollWidth") <= 391
    page.set_viewport_size({"width": 1280, "height": 900})
    page.reload()
    page.wait_for_function(f"{name}?.length === 40")


@pytest.mark.browser
def test_light_and_dark_follow_the_reader(page):
    color = "getComputedStyle(document.body).backgroundColor"
    label = "getComputedStyle(document.querySelector('#subjects .ytick text')).fill"
    shown = {}
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        ink = "rgb(227, 233, 238)" if scheme == "dark" else "rgb(29, 39, 51)"
        page.wait_for_function(f"{label} === '{ink}'")
        shown[scheme] = page.evaluate(color)
    assert shown == {"dark": "rgb(16, 22, 28)", "light": "rgb(245, 247, 249)"}


def test_each_table_as_csv(tmp_path):
    write_csv(sample(), tmp_path / "csv")
    assert sorted(path.stem for path in (tmp_path / "csv").iterdir()) == sorted(sample())
    with (tmp_path / "csv" / "subjects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["subject"] for row in rows] == ["fleet.eu", HOSTILE, "a.b"]
    assert rows[0]["first_time"] == "2026-03-02 08:00:00"
    assert rows[0]["publishers"] == ""
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="file: cannot be written"):
        write_csv(sample(), tmp_path / "file")


def test_bytes_over_time_are_a_section_of_their_own():
    html = render(sample())
    assert '<section id="rates"' in html
    assert '<section id="bytes"' in html
    assert 'id="plot-bytes"' in html
