"""The type of the file system of a store, and the warnings about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from midge.server.jetstream.filesystem import kind_of, weakness_of

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:26 / /run rw,nosuid - tmpfs tmpfs rw,size=1024k
40 22 0:40 / /srv/my\\040data rw shared:9 - nfs4 server:/data rw
41 40 8:2 / /srv/my\\040data/fast rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib/midge", "ext4"),
        ("/run/midge/jetstream", "tmpfs"),
        ("/running", "ext4"),
        ("/srv/my data/js", "nfs4"),
        ("/srv/my data/fast/js", "xfs"),
    ],
)
def test_the_innermost_mount_counts(tmp_path: Path, place: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert kind_of(Path(place), mounts) == kind


def test_memory_and_network_are_warned_of(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert "nothing outlives" in weakness_of(Path("/run/js"), mounts)
    assert "network" in weakness_of(Path("/srv/my data"), mounts)
    assert weakness_of(Path("/var"), mounts) == ""


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    assert weakness_of(tmp_path, tmp_path / "missing") == ""
