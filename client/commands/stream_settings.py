"""The flags of a stream's configuration, and the printed form of a configuration."""

import argparse
from typing import Any

from midge.client.commands.quantities import (
    count,
    duration_ns,
    name,
    show_duration,
    show_size,
    show_time,
    size_bytes,
    subject_filter,
)
from midge.client.commands.settings import CommandChoice, CommandSetting, Switch

_UNLIMITED = "unlimited"


def _subjects(text: str) -> list[str]:
    return [subject_filter(part.strip()) for part in text.split(",")]


STREAM_SETTINGS = (
    CommandSetting("--subjects", "subjects", _subjects, "A,B", "subjects that it stores"),
    CommandSetting("--description", "description", str, "TEXT", "what it is for"),
    CommandChoice("--storage", "storage", ("file", "memory"), "where messages are kept"),
    CommandChoice(
        "--retention", "retention", ("limits", "interest", "workqueue"), "when messages may go"
    ),
    CommandChoice("--discard", "discard", ("old", "new"), "what goes when a limit is reached"),
    CommandChoice("--compression", "compression", ("none", "s2"), "how files are compressed"),
    CommandSetting("--max-msgs", "max_msgs", count, "N", "limit of messages; 0 is none"),
    CommandSetting("--max-bytes", "max_bytes", size_bytes, "SIZE", "limit of bytes; 0 is none"),
    CommandSetting("--max-age", "max_age", duration_ns, "DURATION", "how long messages are kept"),
    CommandSetting("--max-msg-size", "max_msg_size", size_bytes, "SIZE", "limit of one message"),
    CommandSetting(
        "--max-msgs-per-subject", "max_msgs_per_subject", count, "N", "limit for each subject"
    ),
    CommandSetting("--max-consumers", "max_consumers", count, "N", "limit of consumers"),
    CommandSetting(
        "--dupe-window", "duplicate_window", duration_ns, "DURATION", "how long ids are remembered"
    ),
    CommandSetting("--first-seq", "first_seq", count, "N", "sequence of the first message"),
    CommandSetting("--replicas", "num_replicas", count, "N", "copies in a cluster"),
    CommandSetting(
        "--marker-ttl",
        "subject_delete_marker_ttl",
        duration_ns,
        "DURATION",
        "leave markers for subjects that aged away, for so long",
    ),
    Switch("--ack", "no_ack", "acknowledge what is published, as is usual", is_inverse=True),
    Switch("--allow-direct", "allow_direct", "direct access to messages"),
    Switch("--allow-rollup", "allow_rollup_hdrs", "messages may replace those before them"),
    Switch("--allow-ttl", "allow_msg_ttl", "messages may have their own age limit"),
    Switch("--allow-counter", "allow_msg_counter", "subjects are counters"),
    Switch("--allow-atomic", "allow_atomic", "atomic batches"),
    Switch("--allow-schedules", "allow_msg_schedules", "scheduled messages"),
    Switch("--deny-delete", "deny_delete", "refuse to delete messages"),
    Switch("--deny-purge", "deny_purge", "refuse to purge"),
    Switch("--discard-per-subject", "discard_new_per_subject", "refuse new ones per subject"),
)
"""There are also `--mirror` and `--source`, see `add_origins`."""


def add_origins(parser: argparse.ArgumentParser) -> None:
    """Declare the flags for the origins of a stream."""
    parser.add_argument("--mirror", type=name, metavar="STREAM", help="be a mirror of it")
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        type=name,
        metavar="STREAM",
        help="copy what it stores; may be repeated",
    )


def origins_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keys for the origins of a stream."""
    found: dict[str, Any] = {}
    if args.mirror:
        found["mirror"] = {"name": args.mirror}
    if args.source:
        found["sources"] = [{"name": one} for one in args.source]
    return found


def describe(info: dict[str, Any]) -> list[tuple[str, object]]:
    """Return a stream's info as fields for people."""
    config, state = info["config"], info["state"]
    return [
        ("Name", config["name"]),
        ("Description", config.get("description")),
        ("Subjects", ", ".join(config.get("subjects") or []) or None),
        ("Created", show_time(info.get("created", ""))),
        ("Storage", config["storage"]),
        ("Compression", _unless(config.get("compression"), "none")),
        ("Retention", config["retention"]),
        ("Discard", config["discard"]),
        ("Mirror of", (config.get("mirror") or {}).get("name")),
        ("Sources", ", ".join(one["name"] for one in config.get("sources") or []) or None),
        ("Sealed", config.get("sealed") or None),
        ("Max messages", _limit(config.get("max_msgs"))),
        ("Max bytes", _limit(config.get("max_bytes"), show_size)),
        ("Max age", _limit(config.get("max_age"), show_duration)),
        ("Max message size", _limit(config.get("max_msg_size"), show_size)),
        ("Max per subject", _limit(config.get("max_msgs_per_subject"))),
        ("Duplicate window", _limit(config.get("duplicate_window"), show_duration)),
        ("Options", _options(config) or None),
        ("Metadata", _metadata(config)),
        ("Messages", state["messages"]),
        ("Bytes", show_size(state["bytes"])),
        ("First", f"{state['first_seq']:,} @ {show_time(state.get('first_ts', ''))}"),
        ("Last", f"{state['last_seq']:,} @ {show_time(state.get('last_ts', ''))}"),
        ("Deleted", state.get("num_deleted")),
        ("Lost", (state.get("lost") or {}).get("bytes")),
        ("Distinct subjects", state.get("num_subjects")),
        ("Consumers", state["consumer_count"]),
    ]


def _options(config: dict[str, Any]) -> str:
    """Return the flags of the switches that are on."""
    switches = [one for one in STREAM_SETTINGS if isinstance(one, Switch)]
    return ", ".join(one.flag.removeprefix("--") for one in switches if config.get(one.key))


def _metadata(config: dict[str, Any]) -> str | None:
    given = config.get("metadata") or {}
    shown = [f"{key}={value}" for key, value in given.items() if not key.startswith("_nats.")]
    return ", ".join(shown) or None


def _limit(value: int | None, shown: Any = None) -> object:
    if not value or value < 0:
        return _UNLIMITED
    return shown(value) if shown is not None else value


def _unless(value: object, usual: object) -> object:
    return None if value == usual else value
