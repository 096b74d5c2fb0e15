"""What a simulated disk may look like after a power failure."""

from __future__ import annotations

from random import Random

from midge.testing.simulated_disk import SimulatedDisk


def test_a_file_that_was_renamed_is_the_one_that_has_the_name() -> None:
    """An older one that had the same name before it may be there again, but only by its own."""
    found = set()
    for seed in range(200):
        disk = SimulatedDisk(Random(seed))
        first = disk.create("a.new")
        first.write(0, b"first")
        first.sync()
        disk.unlink("a.new")
        second = disk.create("a.new")
        second.write(0, b"second")
        second.sync()
        disk.rename("a.new", "a")
        left = disk.power_failed()
        found.add(tuple((name, left.open(name).read(0, 9)) for name in left.names()))
    assert {data for files in found for name, data in files if name == "a"} == {b"second"}
    assert (("a.new", b"first"),) in found
    assert () in found
