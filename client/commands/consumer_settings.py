"""The flags of a consumer's configuration, and the printed form of a consumer."""

import argparse
from typing import Any

from midge.client.commands.quantities import (
    count,
    duration_ns,
    moment,
    name,
    show_duration,
    show_time,
    size_bytes,
    subject,
    subject_filter,
)
from midge.client.commands.settings import CommandChoice, CommandSetting, Switch
from midge.client.errors import OptionError

_POLICIES = ("all", "new", "last", "last_per_subject")


def _backoff(text: str) -> list[int]:
    return [duration_ns(part.strip()) for part in text.split(",")]


CONSUMER_SETTINGS = (
    CommandSetting(
        "--filter", "filter_subjects", subject_filter, "SUBJECT", "only these", is_list=True
    ),
    CommandSetting("--description", "description", str, "TEXT", "what it is for"),
    CommandChoice("--ack", "ack_policy", ("explicit", "all", "none"), "what must be acknowledged"),
    CommandSetting("--ack-wait", "ack_wait", duration_ns, "DURATION", "then it is delivered again"),
    CommandSetting("--backoff", "backoff", _backoff, "A,B", "the same, for each delivery in turn"),
    CommandSetting("--max-deliver", "max_deliver", count, "N", "how often at most"),
    CommandSetting("--max-ack-pending", "max_ack_pending", count, "N", "how many unacknowledged"),
    CommandChoice("--replay", "replay_policy", ("instant", "original"), "pace"),
    CommandSetting("--sample", "sample_freq", str, "PERCENT", "acknowledgements to report on"),
    CommandSetting(
        "--inactive", "inactive_threshold", duration_ns, "DURATION", "then it is deleted"
    ),
    CommandSetting("--max-waiting", "max_waiting", count, "N", "pull requests that wait"),
    CommandSetting("--max-batch", "max_batch", count, "N", "messages of one pull request"),
    CommandSetting("--max-expires", "max_expires", duration_ns, "DURATION", "patience of one"),
    CommandSetting("--deliver", "deliver_subject", subject, "SUBJECT", "push to this subject"),
    CommandSetting("--deliver-group", "deliver_group", name, "NAME", "push to this queue group"),
    CommandSetting("--heartbeat", "idle_heartbeat", duration_ns, "DURATION", "push: sign of life"),
    CommandSetting("--rate-limit", "rate_limit_bps", size_bytes, "BITS", "push: bits a second"),
    CommandSetting("--replicas", "num_replicas", count, "N", "copies in a cluster"),
    Switch("--flow-control", "flow_control", "push: wait for the receiver"),
    Switch("--headers-only", "headers_only", "leave payloads out"),
    Switch("--memory", "mem_storage", "keep its state in memory"),
)
"""There is also `--start`, see `start_of`."""


def start_of(text: str | None) -> dict[str, Any]:
    """Return the keys for the start of a consumer.

    Raises:
        OptionError: `text` is neither a sequence nor a time nor a policy.

    """
    if not text:
        return {}
    if text in _POLICIES:
        return {"deliver_policy": text}
    if text.isascii() and text.isdigit():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(text)}
    try:
        return {"deliver_policy": "by_start_time", "opt_start_time": moment(text)}
    except argparse.ArgumentTypeError:
        policies = ", ".join(_POLICIES)
        raise OptionError(
            f"--start: expected a sequence, a time, or one of {policies}, got {text!r}"
        ) from None


def describe(info: dict[str, Any]) -> list[tuple[str, object]]:
    """Return a consumer's info as fields for people."""
    config = info["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ""]
    delivered, floor = info["delivered"], info["ack_floor"]
    return [
        ("Name", info["name"]),
        ("Stream", info["stream_name"]),
        ("Description", config.get("description")),
        ("Created", show_time(info.get("created", ""))),
        ("Kind", "push" if config.get("deliver_subject") else "pull"),
        ("Durable", bool(config.get("durable_name"))),
        ("Filter", ", ".join(filter(None, filters)) or None),
        ("Starts with", _start(config)),
        ("Deliver to", config.get("deliver_subject")),
        ("Deliver group", config.get("deliver_group")),
        ("Ack", config["ack_policy"]),
        ("Ack wait", _duration(config.get("ack_wait"))),
        ("Backoff", ", ".join(show_duration(one) for one in config.get("backoff") or []) or None),
        ("Max deliver", _limit(config.get("max_deliver"))),
        ("Max ack pending", _limit(config.get("max_ack_pending"))),
        ("Max waiting", config.get("max_waiting")),
        ("Inactive after", _duration(config.get("inactive_threshold"))),
        ("Heartbeat", _duration(config.get("idle_heartbeat"))),
        ("Paused until", show_time(config.get("pause_until", "")) if info.get("paused") else None),
        ("Delivered", _place(delivered)),
        ("Acknowledged", _place(floor)),
        ("Lag", info.get("num_pending", 0)),
        ("Ack pending", info.get("num_ack_pending", 0)),
        ("Redelivered", info.get("num_redelivered", 0)),
        ("Waiting pulls", info.get("num_waiting", 0)),
        ("Bound", info.get("push_bound")),
    ]


def _start(config: dict[str, Any]) -> str:
    policy = str(config["deliver_policy"])
    if policy == "by_start_sequence":
        return f"sequence {config.get('opt_start_seq', 0):,}"
    if policy == "by_start_time":
        return show_time(config.get("opt_start_time", ""))
    return policy


def _place(pair: dict[str, Any]) -> str:
    return f"stream {pair['stream_seq']:,}, consumer {pair['consumer_seq']:,}"


def _duration(ns: int | None) -> str | None:
    return show_duration(ns) if ns else None


def _limit(value: int | None) -> object:
    return "unlimited" if value is None or value < 0 else value
