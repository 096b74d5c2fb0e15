"""Each public name stands in a program of the documentation, and the tests run these programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.docs.snippets import parse

if TYPE_CHECKING:
    from pathlib import Path

CALLED_BY_MIDGE = {
    "midge.Fault": {"undo"},
    "midge.Faults": {
        *("decides", "edit_info", "route", "screens_deliveries", "screens_publishes"),
    },
    "midge.JetStream": {"direct"},
    "midge.ThreadedJetStream": {"iterate"},
    "midge.server.auth": {"Authenticator", "Identity", "Refusal", "Verdict"},
    "midge.server.interceptors": {"EVENTS", "Interceptor", "load_interceptors"},
    "midge.testing.Capture": {"message_delivered", "message_stored"},
    "midge.testing.StrictMode": {"check_publish"},
    "midge.testing.SimulatedDisk": {
        *("become", "beside", "cold_reads", "committer", "committers", "drop_pages", "entries"),
        *(
            "fetches",
            "fail_sync_at",
            "is_outdated",
            "killed",
            "latency_s",
            "pump",
            "pump_fetch",
            "release",
        ),
        *("random_bytes", "rename", "step", "steps", "stop_at", "stored_entries", "trace"),
        *("sync_directory", "sync_failed", "unlink", "work_by", "work_later"),
    },
}
"""Names that the server calls, or that a faults' method sets; users need not."""


def test_each_public_name_is_in_a_program_that_runs(root: Path) -> None:
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    programs = [
        block.body
        for page in pages
        for block in parse(page.read_text(encoding="utf-8"))
        if block.language == "python" and block.no_run is None
    ]
    words = set(re.findall(r"\w+", "\n".join(programs)))
    missing: dict[str, set[str]] = {}
    listed = root / "tests/unit/midge/surfaces/python_names.txt"
    for line in listed.read_text(encoding="utf-8").splitlines():
        name = re.split(r"[:( ]", line.replace(".async ", "."), maxsplit=1)[0]
        owner, _, last = name.rpartition(".")
        if last != "__init__" and last not in words:
            missing.setdefault(owner, set()).add(last)
    assert missing == CALLED_BY_MIDGE
