"""Pages of several workers put together."""

from __future__ import annotations

from midge.server.monitoring.whole import labelled

ONE = """\
# HELP midge_connections Connections there are
# TYPE midge_connections gauge
midge_connections 2.0
# HELP midge_limits_met_total Times a limit was met, by limit
# TYPE midge_limits_met_total counter
midge_limits_met_total{limit="a"} 1.0
"""
OTHER = ONE.replace("2.0", "5.0").replace('{limit="a"} 1.0', '{limit="b"} 3.0')


def test_each_sample_names_its_worker_and_each_family_has_one_head() -> None:
    assert labelled([(0, ONE), (1, OTHER)]).splitlines() == [
        "# HELP midge_connections Connections there are",
        "# TYPE midge_connections gauge",
        'midge_connections{worker="0"} 2.0',
        'midge_connections{worker="1"} 5.0',
        "# HELP midge_limits_met_total Times a limit was met, by limit",
        "# TYPE midge_limits_met_total counter",
        'midge_limits_met_total{worker="0",limit="a"} 1.0',
        'midge_limits_met_total{worker="1",limit="b"} 3.0',
    ]
