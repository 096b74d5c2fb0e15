"""What the logged calls of a server say of its promise: on the medium before it is answered."""

from __future__ import annotations

from random import Random

from midge.jetstream.store.file.directory import StoreDirectory
from tests.durability.calls import Call, Images, Medium


def early(calls: list[Call]) -> tuple[int, list[bytes]]:
    """Return the number of acknowledged messages, and the answers that came too early."""
    medium = Medium()
    for call in calls:
        medium.see(call)
    return len(medium.acked), medium.early


def check_images(calls: list[Call], count: int, seed: int) -> None:
    """Cut the power at `count` moments; all acknowledged messages must be there each time."""
    random = Random(seed)
    changes = [i for i, call in enumerate(calls) if call.kind in "WSX"]
    moments = set(random.sample(changes, min(count, len(changes))))
    images, medium = Images(seed), Medium()
    is_removed = False
    for i, call in enumerate(calls):
        images.see(call)
        medium.see(call)
        is_removed = is_removed or (call.kind == "R" and b"MSG.DELETE" in call.data)
        if i in moments and not is_removed and "store.a" in images.disk.entries:
            check_image(images, medium)


def check_image(images: Images, medium: Medium) -> None:
    directory = StoreDirectory(images.disk.power_failed(), lambda: None)
    assert directory.damages == []
    found = set()
    for stream in directory.streams():
        seq = stream.next_seq((), 1)
        while seq:
            message = stream.load(seq)
            assert message is not None
            found.add(message.payload[: len(b"<m-0000000>")])
            seq = stream.next_seq((), seq + 1)
    assert medium.acked <= found
