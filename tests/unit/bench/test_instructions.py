"""The reports of valgrind that the comparison of instructions reads."""

import pytest

from bench.instructions import total
from bench.metrics import ScenarioError


@pytest.mark.parametrize("line", ["summary: 1464000123", "totals: 1464000123"])
def test_the_total_of_a_report(line: str) -> None:
    assert total(f"events: Ir\nfn=(1) main\n16 totals: 5\n{line}\n") == 1_464_000_123


def test_a_report_of_a_server_that_was_killed() -> None:
    with pytest.raises(ScenarioError, match="did not stop by itself"):
        total("events: Ir\n")
