"""The soak's ledger: a second delivery without a reason is a fault."""

from __future__ import annotations

from tests.e2e.jetstream.ledger import Ledger


def delivered(*, second_s: float, due_s: float = 0.0, acked: bool = False, life: int = 0) -> Ledger:
    """Return a ledger of a message that came after 10 s and came again at `second_s`."""
    ledger = Ledger(2.0)
    ledger.delivered("C", 1, 1, 9.99, 10.0)
    if due_s:
        ledger.refused("C", 1, due_s)
    if acked:
        ledger.confirmed("C", 1)
    ledger.life = life
    ledger.delivered("C", 1, 2, second_s - 0.01, second_s)
    return ledger


def test_a_delivery_has_a_reason() -> None:
    assert delivered(second_s=12.0).again == {"ack_wait": 1}
    assert delivered(second_s=10.3, due_s=10.3).again == {"nak": 1}
    assert delivered(second_s=10.3, life=1).again == {"restart": 1}


def test_a_delivery_without_a_reason_is_a_fault() -> None:
    assert delivered(second_s=11.8).faults == ["C 1 came again after 1.810 s"]
    assert delivered(second_s=10.2, due_s=10.3).faults == ["C 1 came again after 0.210 s"]


def test_a_delivery_after_a_confirmed_ack_is_a_fault() -> None:
    for life in (0, 1):
        ledger = delivered(second_s=15.0, acked=True, life=life)
        assert ledger.faults == ["C 1 came again after its confirmed ack"]
