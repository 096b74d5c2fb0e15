"""The process's resource usage."""

from midge.server.monitoring.state import ProcessUsage


def test_cpu_is_a_share_of_the_time_since_last_asked() -> None:
    times = {"wall": 0.0, "cpu": 0.0}
    usage = ProcessUsage(lambda: times["wall"], lambda: times["cpu"])
    assert usage.cpu_percent() == 0.0
    times.update(wall=2.0, cpu=0.5)
    assert usage.cpu_percent() == 25.0
    times.update(wall=2.1, cpu=9.0)
    assert usage.cpu_percent() == 25.0  # too soon to say anything new


def test_memory_and_cores_are_there() -> None:
    assert ProcessUsage.memory_bytes() > 1 << 20
    assert ProcessUsage.cores() >= 1
