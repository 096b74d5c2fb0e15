"""The arguments and the output of `midge bench`."""

import argparse
import json

import pytest

from midge.client.benchmark import command as bench_command
from midge.client.benchmark.busy import CpuUsage
from midge.client.benchmark.runs import Outcome, Plan
from midge.client.options import ClientOptions


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    bench_command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def plan() -> Plan:
    return Plan(
        options=ClientOptions.parse({"servers": "nats://me:secret@host"}),
        subject=b"a.b",
        messages=10,
    )


@pytest.fixture
def outcome() -> Outcome:
    outcome = Outcome()
    for started_s, finished_s in ((10.0, 12.0), (11.0, 14.0)):
        tally = outcome.add("publish", 100)
        tally.messages, tally.payload_bytes = 100, 1 << 20
        tally.started_s, tally.finished_s = started_s, finished_s
    return outcome


def test_defaults_are_enough() -> None:
    args = parsed("pub", "a.b")
    assert (args.subject, args.count, args.size, args.clients) == (b"a.b", 100_000, 128, 1)


@pytest.mark.parametrize(("text", "count"), [("10k", 10_000), ("2M", 2_000_000), ("1_000", 1000)])
def test_counts_may_be_short(text: str, count: int) -> None:
    assert parsed("pub", "a", "--count", text).count == count


@pytest.mark.parametrize("text", ["", "0", "-1", "k", "1.5", "1e3", "²", "99999999999m"])
def test_other_counts_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)) as caught:
        parsed("pub", "a", f"--count={text}")
    said = str(caught.value) + capsys.readouterr().err
    assert f"expected a number from 1 to 1,000,000,000,000, got {text!r}" in said


@pytest.mark.parametrize("text", ["", "a..b", "a b", ".a", "a\r\nPUB b 0"])
def test_bad_subjects_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)) as caught:
        parsed("pub", text)
    assert "expected a subject such as 'a.b'" in str(caught.value) + capsys.readouterr().err


def test_publishing_to_a_wildcard_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_command.run(parsed("pub", "a.*")) == 2
    assert capsys.readouterr().err == (
        "midge bench: subject: expected one without wildcards, got 'a.*'\n"
    )


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_command.run(parsed("pub", "a", "--server", "127.0.0.1:1")) == 1
    assert "cannot connect to 127.0.0.1:1: " in capsys.readouterr().err


def test_a_ca_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("pub", "a", "--server", "tls://127.0.0.1:1", "--tls-ca-file", "/no/such.pem")
    assert bench_command.run(parsed(*words)) == 2
    assert (
        "TLS files cannot be read: no such file or directory (/no/such.pem)"
        in capsys.readouterr().err
    )


def test_shares_add_up() -> None:
    options = ClientOptions.parse({"servers": "host"})
    plan = Plan(options=options, subject=b"a", messages=10, clients=4)
    assert plan.shares() == [3, 3, 2, 2]


def test_a_role_is_timed_from_its_first_to_its_last_client(plan: Plan, outcome: Outcome) -> None:
    document = json.loads(json.dumps(bench_command.as_document("pub", plan, outcome)))
    role = document["roles"]["publish"]
    assert (role["messages"], role["elapsed_s"], role["messages_per_s"]) == (200, 4.0, 50.0)
    assert [client["messages_per_s"] for client in role["clients"]] == [
        50.0,
        pytest.approx(33.33, 0.01),
    ]
    assert "secret" not in json.dumps(document)


def test_lines_name_roles_clients_and_latencies(plan: Plan, outcome: Outcome) -> None:
    outcome.latencies_ns = [60_000] * 10
    text = "\n".join(bench_command.as_lines(plan, outcome))
    assert text.startswith("host:4222, subject a.b\npublish")
    assert "200 messages    4.000 s            50 msg/s       0.5 MiB/s" in text
    assert "p99.9 60 µs" in text
    assert "≤ 70 µs" in text
    assert "secret" not in text


def test_the_usage_of_both_sides_is_told(plan: Plan, outcome: Outcome) -> None:
    outcome.usage = CpuUsage(2.0, 1.0, 0.5)
    assert bench_command.as_lines(plan, outcome)[-1] == (
        "busy       generator 50% of a CPU, server 25%, 2500.00 µs a message"
    )
    usage = bench_command.as_document("pub", plan, outcome)["usage"]
    assert usage == {
        "generator_cpus": 0.5,
        "server_cpus": 0.25,
        "server_us_per_message": 2500.0,
    }
    outcome.usage = CpuUsage(0.02, 0.01, 0.01)
    assert bench_command.as_lines(plan, outcome)[-1].endswith("server 50%, too short a run to tell")
    outcome.usage = CpuUsage(2.0, 1.0, None)
    assert "server unknown" in bench_command.as_lines(plan, outcome)[-1]
