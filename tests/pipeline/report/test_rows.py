"""What the report makes of gold before it shows it."""

from datetime import datetime, timedelta

import pytest

from midge.pipeline.report.rows import listened, no_interest, subjects, whole_windows

START = datetime(2026, 3, 2, 8, 0)  # noqa: DTZ001 - as the tables give it


def rate(window, messages=60, prefix="a"):
    return {
        "window_start": START + timedelta(minutes=window),
        "prefix": prefix,
        "messages": messages,
        "messages_per_s": messages / 60,
    }


def gold_of(first_s, last_s, windows):
    times = {
        "first_time": START + timedelta(seconds=first_s),
        "last_time": START + timedelta(seconds=last_s),
    }
    subject = {"account": "$G", "subject": "a", "messages": 1}
    return {"rates": [rate(window) for window in windows], "subjects": [subject | times]}


@pytest.mark.parametrize(
    ("first_s", "last_s", "windows", "shown"),
    [
        (0, 180, range(3), [0, 1, 2]),
        (2, 178, range(3), [0, 1, 2]),
        (0, 150, range(3), [0, 1]),
        (30, 179, range(3), [1, 2]),
        (30, 150, range(3), [1]),
        (10, 40, range(1), [0]),
        (30, 90, range(2), [0, 1]),
    ],
    ids=["whole", "nearly", "last", "first", "both", "one", "nothing left"],
)
def test_a_window_that_was_recorded_in_part_is_left_out(first_s, last_s, windows, shown):
    found = whole_windows(gold_of(first_s, last_s, windows))
    assert [row["window_start"] for row in found] == [
        START + timedelta(minutes=window) for window in shown
    ]


def test_one_off_subjects_are_folded():
    rows = [
        {"account": "$G", "subject": subject, "messages": messages}
        for subject, messages in (
            *(("_INBOX.x.1", 2), ("a", 3), ("_INBOX.y.2", 2), ("_INBOXES", 1)),
            *(("$JS.ACK.S.c.1.2.3.4.5", 3), ("$JS.ACK.S.c.1.3.4.4.5", 3)),
        )
    ]
    folded = [("$JS.ACK.>", 6), ("_INBOX.>", 4), ("a", 3), ("_INBOXES", 1)]
    for chosen, table in ((subjects, "subjects"), (no_interest, "no_interest")):
        found = [(row["subject"], row["messages"]) for row in chosen({table: rows})]
        assert found == folded
    rows.append({"account": "B", "subject": "a", "messages": 9})
    assert subjects({"subjects": rows})[0]["subject"] == "a (B)"


def test_servers_that_were_listened_to_are_told_apart():
    nothing = {"counted": 0, "subscriptions": 0, "sessions": 0}
    rows = [
        {"server": "heard"} | nothing,
        {"server": "own"} | nothing | {"counted": 1},
        {"server": "idle"} | nothing | {"sessions": 1},
    ]
    assert listened({"coverage": rows}) == (["idle", "own"], ["heard"])
