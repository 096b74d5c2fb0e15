"""Preparation of gold's rows for the report."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from midge.pipeline.lake.tables import INBOX

Row = Mapping[str, Any]
Gold = Mapping[str, Sequence[Row]]
"""The rows of each gold table, by its name without the layer."""

_WHOLE_SHARE = 0.1
"""A window counts as completely recorded if at most this share of it is missing at the edge: if
messages are seconds apart, the first one comes some time after the begin of the recording."""

_ONE_OFF = (INBOX, "$JS.ACK.")
"""The prefixes of subjects that are there for one message each."""


def span(gold: Gold) -> tuple[datetime, datetime] | None:
    """Return the times of the first and the last recorded message."""
    times = [row[name] for row in gold["subjects"] for name in ("first_time", "last_time")]
    return (min(times), max(times)) if times else None


def whole_windows(gold: Gold) -> Sequence[Row]:
    """Return the rates without a first and a last window that are only partly recorded.

    Such rates are sums over part of the window, divided by its whole length. If no window would be
    left, all rates are returned.
    """
    rows, times = gold["rates"], span(gold)
    if not rows or times is None:
        return rows
    length = window_length(rows)
    slack = length * _WHOLE_SHARE
    whole = [
        row
        for row in rows
        if row["window_start"] + slack >= times[0]
        and row["window_start"] + length - slack <= times[1]
    ]
    return whole or rows


def window_length(rates: Sequence[Row]) -> timedelta:
    """Return the length of the windows of the rates."""
    row = rates[0]
    return timedelta(seconds=round(row["messages"] / row["messages_per_s"]))


def subjects(gold: Gold) -> Sequence[Row]:
    """Return subjects with their messages, the most first, all inboxes as one, and all acks."""
    return _folded(gold["subjects"])


def no_interest(gold: Gold) -> Sequence[Row]:
    """Return the subjects with undelivered messages in the same way."""
    return _folded(gold["no_interest"])


def exchanges(gold: Gold) -> Sequence[Row]:
    """Return requests and replies without pulls, whose replies wait for messages."""
    return [row for row in gold["latency"] if ".CONSUMER.MSG.NEXT." not in row["subject"]]


def listened(gold: Gold) -> tuple[list[str], list[str]]:
    """Return the servers that recorded themselves, and the servers recorded by a listener."""
    known: defaultdict[str, int] = defaultdict(int)
    for row in gold["coverage"]:
        known[row["server"]] += row["counted"] + row["subscriptions"] + row["sessions"]
    by_themselves = sorted(server for server, count in known.items() if count)
    return by_themselves, sorted(set(known) - set(by_themselves))


def _folded(rows: Sequence[Row]) -> Sequence[Row]:
    """Sum up rows by subject; with several accounts, the account is part of the subject."""
    has_accounts = len({row["account"] for row in rows}) > 1
    sums: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        folds = (f"{prefix}>" for prefix in _ONE_OFF if row["subject"].startswith(prefix))
        subject = next(folds, row["subject"])
        name = f"{subject} ({row['account']})" if has_accounts else subject
        sums[name] += row["messages"]
    ordered = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
    return [{"subject": name, "messages": messages} for name, messages in ordered]
