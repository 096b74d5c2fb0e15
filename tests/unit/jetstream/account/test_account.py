"""An account makes, changes and deletes streams within its limits."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.account.limits import JetStreamAccountLimits, ServerLimits
from tests.support.jetstream_account import AccountRig


def create(rig: AccountRig, name: str, **keys: Any) -> int:
    """Return the error code of making a memory stream, 0 for none."""
    answer = rig.api(f"STREAM.CREATE.{name}", {"name": name, "storage": "memory", **keys})
    code: int = answer.get("error", {}).get("err_code", 0)
    return code


def test_limits_of_the_account_hold() -> None:
    limits = JetStreamAccountLimits(
        1000, 2000, 2, 3, memory_max_stream_bytes=500, max_bytes_required=True
    )
    rig = AccountRig(limits=limits)
    assert create(rig, "A") == 10113
    assert create(rig, "A", max_bytes=600) == 10122
    assert create(rig, "A", max_bytes=300) == 0
    assert create(rig, "B", max_bytes=450, max_consumers=5) == 10026
    assert create(rig, "B", max_bytes=450) == 0
    assert create(rig, "C", max_bytes=1) == 10027
    update = {"name": "A", "storage": "memory", "max_bytes": 600}
    assert rig.api("STREAM.UPDATE.A", update)["error"]["err_code"] == 10122
    info = rig.api("INFO")
    assert (info["reserved_memory"], info["streams"]) == (750, 2)
    rig.api("STREAM.DELETE.A")
    assert rig.api("INFO")["reserved_memory"] == 450


def test_limits_of_the_server_hold() -> None:
    rig = AccountRig(server_limits=ServerLimits(max_memory=1000, max_storage=1000))
    assert create(rig, "A", max_bytes=900) == 0
    assert create(rig, "B", max_bytes=200) == 10028
    assert create(rig, "B", max_bytes=200, storage="file") == 0
    assert create(rig, "C", max_bytes=900, storage="file") == 10047


def test_tiers_have_limits_of_their_own() -> None:
    rig = AccountRig()
    rig.account.set_limits({"R3": JetStreamAccountLimits()})
    assert create(rig, "A") == 10120
    rig.account.set_limits(
        {"R1": JetStreamAccountLimits(max_streams=1), "R3": JetStreamAccountLimits()}
    )
    assert create(rig, "A") == 0
    assert create(rig, "B") == 10027
    tiers = rig.api("INFO")["tiers"]
    assert list(tiers) == ["R1", "R3"]
    assert (tiers["R1"]["streams"], tiers["R3"]["streams"]) == (1, 0)


def test_what_is_counted_is_shown() -> None:
    rig = AccountRig(domain="hub")
    rig.create()
    rig.publish("a.1", b"x" * 100)
    rig.api("STREAM.INFO.NONE")
    info = rig.api("INFO")
    assert (info["memory"], info["storage"], info["domain"]) == (119, 0, "hub")
    assert info["api"] == {"level": 5, "total": 2, "errors": 1}


@pytest.mark.parametrize("subject", ["a.1", "a.>", "*.x", ">"])
def test_no_two_streams_take_the_same_message(subject: str) -> None:
    rig = AccountRig()
    rig.create()
    assert create(rig, "B", subjects=[subject], no_ack=True) == 10065


def test_a_stream_is_taken_up_again_from_its_store() -> None:
    rig = AccountRig()
    stream = rig.create(max_msgs=5, metadata={"a": "b"})
    for _ in range(3):
        rig.publish("a.1", b"x")
    before = rig.api("STREAM.INFO.A")
    again = AccountRig()
    again.account.recover(stream.store)
    after = again.api("STREAM.INFO.A")
    assert (after["config"], after["created"], after["state"]) == (
        before["config"],
        before["created"],
        before["state"],
    )
    assert again.publish("a.1", b"x")["seq"] == 4


def test_advisories_tell_what_becomes_of_a_stream() -> None:
    rig = AccountRig()
    prefix = b"$JS.EVENT.ADVISORY.STREAM."
    rig.outbox.interest = {prefix + kind + b".A" for kind in (b"CREATED", b"UPDATED", b"DELETED")}
    keys = {"name": "A", "storage": "memory"}
    seen = []
    for verb in ("CREATE", "UPDATE", "DELETE"):
        sent = rig.exchange(f"$JS.API.STREAM.{verb}.A", keys if verb != "DELETE" else b"")
        seen += [to for to, _, _ in sent if to.startswith("$JS.EVENT.")]
    assert [to.split(".")[-2] for to in seen] == ["CREATED", "UPDATED", "DELETED"]


def test_an_api_level_that_is_not_reached_is_refused() -> None:
    rig = AccountRig()
    rig.create()
    for level, code in (("6", 10185), ("x", 10185), ("5", 0)):
        answer = rig.api("STREAM.INFO.A", b"", {"Nats-Required-Api-Level": level})
        assert answer.get("error", {}).get("err_code", 0) == code


def test_what_is_no_request_is_not_answered() -> None:
    rig = AccountRig()
    for subject in ("BOGUS", "STREAM.FOO.x", "STREAM.CREATE.a.b", "STREAM"):
        assert rig.exchange("$JS.API." + subject) == []


def test_a_purge_of_nothing_moves_the_floor_of_consumers() -> None:
    rig = AccountRig()
    rig.create("S", subjects=["s.*"])
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.b"}
    rig.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    rig.publish("s.a", b"1")
    rig.publish("s.b", b"2")
    assert rig.api("STREAM.PURGE.S", {"filter": "s.b", "seq": 1})["purged"] == 0
    assert rig.api("CONSUMER.INFO.S.c")["ack_floor"]["stream_seq"] == 1


def test_subjects_are_free_again_when_their_stream_has_left_them() -> None:
    rig = AccountRig()
    assert create(rig, "A", subjects=["a.>", "b"]) == 0
    assert create(rig, "B", subjects=["a.1"]) == 10065
    update = {"name": "A", "storage": "memory", "subjects": ["b", "c.*"]}
    assert "error" not in rig.api("STREAM.UPDATE.A", update)
    assert create(rig, "B", subjects=["a.1"]) == 0
    taken = {**update, "subjects": ["b", "a.*"]}
    assert rig.api("STREAM.UPDATE.A", taken)["error"]["err_code"] == 10065
    assert create(rig, "C", subjects=["c.1"]) == 10065
    rig.api("STREAM.DELETE.A")
    assert create(rig, "C", subjects=["c.1", "b"]) == 0


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_deletions_are_denied_only_where_no_acknowledgement_removes(retention: str) -> None:
    """nats-server takes `deny_delete` with any retention, and removes the messages all the same."""
    rig = AccountRig()
    config = {"name": "A", "subjects": ["a"], "storage": "memory", "retention": retention}
    for request in ("STREAM.CREATE.A", "STREAM.RESTORE.A"):
        asked = {**config, "deny_delete": True}
        body = {"config": asked, "state": {}} if "RESTORE" in request else asked
        answer = rig.api(request, body)
        assert answer["error"]["err_code"] == 10052, answer
        assert "deny delete" in answer["error"]["description"]
    rig.create(subjects=["a"], retention=retention)
    assert rig.api("STREAM.UPDATE.A", {**config, "deny_delete": True})["error"]["err_code"] == 10052
    sealed = rig.api("STREAM.UPDATE.A", {**config, "sealed": True})
    assert sealed["config"]["deny_delete"]
    rig.create("B", subjects=["b"], deny_delete=True)
    if retention == "interest":
        asked = {**config, "name": "B", "subjects": ["b"], "deny_delete": True}
        assert rig.api("STREAM.UPDATE.B", asked)["error"]["err_code"] == 10052


def test_a_stream_that_denies_deletions_with_another_retention_can_be_updated() -> None:
    """One that an earlier release made."""
    rig = AccountRig()
    stream = rig.create(subjects=["a"], retention="interest")
    stream.config.deny_delete = True
    config = {"name": "A", "subjects": ["a"], "storage": "memory", "retention": "interest"}
    answer = rig.api("STREAM.UPDATE.A", {**config, "deny_delete": True, "max_msgs": 5})
    assert answer["config"]["max_msgs"] == 5
