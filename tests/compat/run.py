"""Run the Python client's own test suites against a server executable, and print a table by group.

    python -m tests.compat.run SUITE_DIR [--server COMMAND]... [--suite NAME]...
        [--keep FILE] [--report FILE] [--report-only]

SUITE_DIR is a checkout of the client's repository, kept outside of this one. Without `--server`,
the suites run against midge and against the nats-server of this environment; midge gets an option
to bind every address, like nats-server's default. Each suite has the loopback network to itself
where the system can give it one, since the suites use fixed ports.

`--keep` adds the outcomes to a file of earlier ones, so that a report can be made of several runs;
a test that runs again replaces what the file has of it.

nats-core, nats-jetstream and nats-key-value are written for Python 3.13; `--python` names the
interpreter of an environment that has pytest, pytest-asyncio, pytest-timeout and what the clients
ask for (aiohttp, aiofiles, nkeys, websockets). The servers run on this one.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from midge.protocol import COMPATIBLE_VERSION
from tests.compat.groups import GROUPS, group_of
from tests.compat.report import write_report
from tests.support.processes import midge_command, nats_server_command

CHECKOUT = Path(__file__).resolve().parents[2]
TEST_TIMEOUT_S = 60
SUITE_TIMEOUT_S = 3600
REASON_MAX_LENGTH = 160
AGAIN_MAX = 2

# A fast server answers within the millisecond that uvloop's clock counts, and the client's test of
# the round trip wants more than nothing; so the suites run on asyncio's own loop.
_RUN_PYTEST = (
    "import sys; sys.modules['uvloop'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
)


class Suite(NamedTuple):
    """One suite of the repository: where it runs, what it imports and where its tests are."""

    directory: str
    sources: tuple[str, ...]
    tests: str


_CORE = ("nats-core/src", "nats-server/src")
SUITES = {
    "nats.py": Suite(".", ("nats/src",), "nats/tests"),
    "nats-core": Suite("nats-core", _CORE, "tests"),
    "nats-jetstream": Suite("nats-jetstream", (*_CORE, "nats-jetstream/src"), "tests"),
    "nats-key-value": Suite(
        "nats-key-value", (*_CORE, "nats-jetstream/src", "nats-key-value/src"), "tests"
    ),
    "nats-server": Suite("nats-server", ("nats-server/src",), "tests"),
}


class Outcome(NamedTuple):
    """How one test ended: `passed`, `failed` or `skipped`."""

    suite: str
    group: str
    test: str
    result: str
    reason: str = ""
    """The first line of a failed test's message."""
    node: str = ""
    """Where pytest finds it."""


def main() -> int:
    """Run what the command line asks for."""
    options = _parse_arguments()
    servers = [shlex.split(server) for server in options.server or ()]
    if not servers and not options.report_only:
        servers = [nats_server_command(), [*midge_command(), "-a", "0.0.0.0"]]
    outcomes = read_outcomes(options.keep)
    for server in servers:
        name = options.name or _name_of(server)
        for suite in options.suite or SUITES:
            found = run_suite(
                options.suite_dir, suite, server, select=options.select, python=options.python
            )
            ran = {one[:3] for one in found}
            kept = [one for one in outcomes.get(name, []) if one[:3] not in ran]
            outcomes[name] = kept + found
            _write_outcomes(options.keep, outcomes)
            _print(name, found)
    if options.report:
        write_report(options.report, options.suite_dir, outcomes)
    return 0


def _print(name: str, outcomes: list[Outcome]) -> None:
    print(f"\n{name}\n{table(outcomes)}", flush=True)
    for outcome in outcomes:
        if outcome.result == "failed":
            print(f"  failed: {outcome.suite} [{outcome.group}] {outcome.test}")
            print(f"          {outcome.reason}")


def read_outcomes(path: Path | None) -> dict[str, list[Outcome]]:
    """Return the outcomes that `path` keeps, by server, in the order in which they came."""
    if path is None or not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {name: [Outcome(*fields) for fields in outcomes] for name, outcomes in kept.items()}


def _write_outcomes(path: Path | None, outcomes: dict[str, list[Outcome]]) -> None:
    if path is not None:
        path.write_text(json.dumps(outcomes, indent=0), encoding="utf-8")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite_dir", type=Path, help="checkout of the client's repository")
    parser.add_argument("--server", action="append", help="command that starts a server")
    parser.add_argument("--suite", action="append", choices=SUITES, help="suite to run")
    parser.add_argument("--select", default="", help="pytest's -k")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the suites")
    parser.add_argument("--name", default="", help="name of the server in the table")
    parser.add_argument("--keep", type=Path, help="file that outcomes are added to")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    parser.add_argument("--report", type=Path, help="file for the result, as Markdown")
    return parser.parse_args()


def run_suite(
    repository: Path,
    name: str,
    server: list[str],
    *,
    select: str = "",
    python: str = sys.executable,
) -> list[Outcome]:
    """Run one suite against the server that the command `server` starts.

    Failed tests run again, without the others: the suites wait for fixed times, and machines are
    busy.
    """
    outcomes = _run_tests(repository, name, server, [SUITES[name].tests], select, python)
    for _ in range(AGAIN_MAX):
        alive = {one.group for one in outcomes if one.result == "passed"}
        failed = [one for one in outcomes if one.result == "failed" and one.group in alive]
        if not failed:
            break
        nodes = [one.node for one in failed]
        again = {one.node: one for one in _run_tests(repository, name, server, nodes, "", python)}
        outcomes = [again.get(one.node, one) for one in outcomes]
    return outcomes


def _run_tests(
    repository: Path, name: str, server: list[str], tests: list[str], select: str, python: str
) -> list[Outcome]:
    suite = SUITES[name]
    with tempfile.TemporaryDirectory(prefix="midge-compat-") as directory:
        scratch = Path(directory)
        _write_wrapper(scratch / "nats-server", server)
        result = scratch / "result.xml"
        sources = [str((repository / source).resolve()) for source in suite.sources]
        environment = os.environ | {
            "PATH": f"{scratch}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sources),
            "HOME": str(scratch),  # where the suite looks for a server of its own
            "NATS_SERVER_VERSION": f"v{COMPATIBLE_VERSION}",  # some tests are skipped without
        }
        command = [
            *(python, "-c", _RUN_PYTEST, *tests, "-q", f"--junit-xml={result}"),
            *("-o", "asyncio_mode=auto", f"--timeout={TEST_TIMEOUT_S}", "--tb=no", "-ra"),
            *("-o", "junit_family=xunit1"),  # which names a test's file
            *("-p", "no:cacheprovider", "-p", "no:benchmark", "-W", "ignore"),
            *(("-k", select) if select else ()),
        ]
        subprocess.run(
            _alone(command),
            cwd=repository / suite.directory,
            env=environment,
            timeout=SUITE_TIMEOUT_S,
            check=False,
        )
        return _read_result(name, result)


def _write_wrapper(path: Path, server: list[str]) -> None:
    """Write an executable that starts `server` from any folder."""
    command = shlex.join(server)
    path.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {command} "$@"\n', encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _alone(command: list[str]) -> list[str]:
    """Return `command` a loopback network of its own, where that is possible."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return command
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    probe = subprocess.run([*alone, "true"], capture_output=True, check=False)
    return [*alone, *command] if probe.returncode == 0 else command


def _read_result(suite: str, path: Path) -> list[Outcome]:
    """Read pytest's report.

    Raises:
        RuntimeError: there is none, because the suite did not even start.
    """
    if not path.exists():
        raise RuntimeError(f"{suite}: expected a report of its tests, found none")
    outcomes = []
    for case in ET.parse(path).getroot().iter("testcase"):
        parts = case.get("classname", "").split(".")
        class_name = parts[-1] if parts[-1][:1].isupper() else ""
        file = next((part for part in reversed(parts) if part.startswith("test_")), "")
        kinds = {child.tag: child.get("message", "") for child in case}
        failures = [text for kind, text in kinds.items() if kind in {"failure", "error"}]
        result = "failed" if failures else "skipped" if "skipped" in kinds else "passed"
        reason = "".join(failures[:1]).partition("\n")[0][:REASON_MAX_LENGTH]
        test = case.get("name", "")
        name = f"{class_name or file}.{test}"
        group = group_of(suite, file, class_name, test)
        node = "::".join(filter(None, (case.get("file", ""), class_name, test)))
        outcomes.append(Outcome(suite, group, name, result, reason, node))
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Write the table of one server: passed of all, by suite and group."""
    lines = [f"  {'suite':<12}{'group':<18}{'passed':>8}{'of':>6}{'skipped':>9}"]
    for suite in SUITES:
        for group in GROUPS:
            chosen = [one for one in outcomes if (one.suite, one.group) == (suite, group)]
            if chosen:
                counts = Counter(one.result for one in chosen)
                lines.append(
                    f"  {suite:<12}{group:<18}{counts['passed']:>8}{len(chosen):>6}"
                    f"{counts['skipped']:>9}"
                )
    return "\n".join(lines)


def _name_of(server: list[str]) -> str:
    """Name a server after its executable or module, with what it says of its version."""
    answer = subprocess.run(
        [*server, "--version"], capture_output=True, text=True, check=False, cwd=CHECKOUT
    )
    return answer.stdout.strip() or answer.stderr.strip() or server[0]


if __name__ == "__main__":
    sys.exit(main())
