"""The metrics of scenarios, and their form in a report."""

from collections.abc import Mapping
from dataclasses import dataclass

Measurement = Mapping[str, float]
"""One round of one scenario on one server: metric name to value."""


class ScenarioError(Exception):
    """A measurement that must not be reported, for example because messages are missing."""


@dataclass(frozen=True)
class Metric:
    """How to print one metric, and which direction is better."""

    name: str
    title: str
    unit: str
    higher_is_better: bool = False
    compared: bool = True
    """Whether a ratio between the servers means anything."""
    is_share: bool = False
    """Whether the value is itself a ratio with a target, instead of the ratio of the servers."""


METRICS = {
    metric.name: metric
    for metric in (
        Metric("rate", "rate", "/s", higher_is_better=True),
        Metric("cpu_us", "server CPU", "µs"),
        Metric("p50_us", "latency p50", "µs"),
        Metric("p99_us", "latency p99", "µs"),
        Metric("p999_us", "latency p99.9", "µs"),
        Metric("first_us", "first", "µs"),
        Metric("max_us", "longest", "µs"),
        Metric("stored", "stored", "", higher_is_better=True, is_share=True),
        Metric("of_core", "share of the core's rate", "", higher_is_better=True, is_share=True),
        Metric("rss_bytes", "memory each", "B"),
        Metric("generator_busy", "generator", "cores", compared=False),
        Metric("others_busy", "others", "cores", compared=False),
    )
}


def format_value(metric: Metric, value: float) -> str:
    """Return a value with its unit, in a readable number of digits."""
    if metric.name == "rate":
        return f"{value:,.0f}{metric.unit}"
    if value >= 100:
        return f"{value:,.0f} {metric.unit}"
    return f"{value:.3g} {metric.unit}"
