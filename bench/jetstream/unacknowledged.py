"""Publishing into a stream without asking for acknowledgements: everything must be stored."""

import time
from dataclasses import dataclass
from typing import ClassVar

from bench.jetstream.api import asking
from bench.metrics import Measurement, ScenarioError
from bench.mixed import Mixed
from bench.servers import Server

_POLL_S = 0.25


@dataclass(frozen=True, kw_only=True)
class StreamTakes(Mixed):
    """A publisher with random subjects and sizes, all of one stream.

    The rate is the publishing rate; the CPU time includes storing. nats-server drops messages that
    come faster than it stores them; the figure "stored" is the share that each server has kept. The
    same messages are published before there is a stream: "of_core" is the share of that rate that
    is left.
    """

    jetstream: ClassVar[bool] = True

    subscribers: int = 0
    storage: str = "file"

    def run(self, server: Server, seconds: float) -> Measurement:
        """Publish for the given time and return the figures once nothing more is stored.

        Raises:
            ScenarioError: the stream holds more than was published.
        """
        # Each round has a new name, because nats-server may still be removing the last stream's
        # files.
        stream = f"TAKES{time.monotonic_ns()}"
        roots = sorted({topic.partition(b".")[0].decode() for topic in self.topics})
        core = self.without_stream().run(server, seconds)
        with asking(server) as api:
            api.create_stream(stream, [f"{root}.>" for root in roots], storage=self.storage)
            measurement = super().run(server, seconds)
            api.ask(f"STREAM.DELETE.{stream}")
        return {**measurement, "of_core": measurement["rate"] / core["rate"]}

    def without_stream(self) -> Mixed:
        """Return the same publisher without a stream or a subscriber."""
        return Mixed(
            name=self.name,
            title=self.title,
            topics=self.topics,
            bytes_min=self.bytes_min,
            bytes_max=self.bytes_max,
            subscribers=0,
        )

    def settle(self, server: Server, messages: int) -> Measurement:
        """Wait until `messages` messages are stored, or their number stays; purge them.

        Raises:
            ScenarioError: the stream has more messages than were published.
        """
        with asking(server) as api:
            (stream,) = api.ask("STREAM.NAMES")["streams"]
            held, before = api.messages(stream), -1
            while before < held < messages:
                time.sleep(_POLL_S)
                held, before = api.messages(stream), held
            api.ask(f"STREAM.PURGE.{stream}")
        if held > messages:
            raise ScenarioError(f"{messages} published, {held} are stored")
        return {"stored": held / messages}
