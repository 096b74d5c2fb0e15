"""A stream's subjects as subscriptions: from the router into the stream, without a copy between."""

from midge.jetstream.stream.stream import Stream
from midge.protocol.frame import Frame
from midge.server.clients.gate import Gate
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription


class StreamSubscription(RoutedSubscription):
    """One subject of `stream`. Equal lines go into it one after the other, as a run.

    While `gate` is shut, publishers are held, whether they ask for acks or not.
    """

    def __init__(self, subject: bytes, stream: Stream, gate: Gate | None = None) -> None:
        RoutedSubscription.__init__(self, subject)
        self.stream = stream
        self.gate = gate

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Store a message; the stream answers its publisher by itself."""
        self.stream.publish_frame(frame)
        if self.gate is not None and self.gate.is_shut and publisher is not None:
            publisher.hold_for(self.gate)
        return True

    def trace_events(self, frame: Frame) -> list[dict[str, str]]:
        """Tell a trace which stream `frame` goes into."""
        subject = frame.subject_bytes().decode(errors="replace")
        return [{"type": "js", "stream": self.stream.config.name, "subject": subject}]

    def takes_runs(self) -> bool:
        """Tell that `receive_run` may stand for as many calls of `receive`."""
        return True
