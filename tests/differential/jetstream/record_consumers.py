"""Record what nats-server does with the programs: ``python -m … FIRST LAST FILE``.

Each line of the file is a seed and the answers to its steps.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.differential.jetstream.consumer_programs import (
    INBOXES,
    NANOSECONDS_OF_AN_HOUR,
    Deliveries,
    Program,
    Step,
    prefixed,
    shown_info,
)

QUIET_S = 0.05
"""Nothing more comes of a step when nothing came for so long."""

Message = tuple[str, str, str, str, str]


class Client:
    """A connection over a plain socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._read = b""
        self._requests = 0
        self.others: list[Message] = []
        self._line()
        self.write(
            'CONNECT {"headers":true,"no_responders":true,"verbose":false}\r\nSUB _R.> r\r\n'
        )

    def write(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def publish(self, subject: str, body: str = "", reply: str = "") -> None:
        self.write(f"PUB {subject} {reply} {len(body)}\r\n{body}\r\n")

    def request(self, subject: str, body: str = "", wait_s: float = 1) -> Message | None:
        """Return the answer to a request; what else comes meanwhile is kept."""
        self._requests += 1
        reply = f"_R.{self._requests}"
        self.publish(subject, body, reply)
        while (message := self.next(wait_s)) is not None:
            if message[1] == reply:
                return message
            self.others.append(message)
        return None

    def ask(self, subject: str, body: Any = "") -> dict[str, Any]:
        """Return the JSON of an answer."""
        text = body if isinstance(body, str) else json.dumps(body)
        message = self.request(subject, text)
        assert message is not None
        answer: dict[str, Any] = json.loads(message[4])
        return answer

    def next(self, wait_s: float) -> Message | None:
        """Return sid, subject, reply, headers and payload of the next message."""
        self._socket.settimeout(wait_s)
        try:
            while True:
                line = self._line()
                if line.startswith(("MSG", "HMSG")):
                    break
                if line == "PING":
                    self.write("PONG\r\n")
        except TimeoutError:
            return None
        self._socket.settimeout(None)
        words = line.split()
        sizes = 2 if words[0] == "HMSG" else 1
        reply = words[3] if len(words) - sizes == 4 else ""
        header_size = int(words[-2]) if sizes == 2 else 0
        body = self._take(int(words[-1]) + 2)[:-2]
        headers, payload = body[:header_size].decode(), body[header_size:].decode()
        return words[2], words[1], reply, headers, payload

    def rest(self) -> list[Message]:
        """Return all that has come, and comes until nothing does for a while."""
        found, self.others = self.others, []
        while (message := self.next(QUIET_S)) is not None:
            found.append(message)
        return found

    def _line(self) -> str:
        while b"\r\n" not in self._read:
            self._read += self._socket.recv(65536)
        line, self._read = self._read.split(b"\r\n", 1)
        return line.decode()

    def _take(self, size: int) -> bytes:
        while len(self._read) < size:
            self._read += self._socket.recv(65536)
        taken, self._read = self._read[:size], self._read[size:]
        return taken


class Run:
    """A program on nats-server."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._name = f"S{seed}"
        self._prefix = f"p{seed}."
        self._deliveries = Deliveries(self._name, self._prefix)
        self._inboxes = [f"q{seed}.{number}" for number in range(INBOXES)]
        for number, inbox in enumerate(self._inboxes):
            client.write(f"SUB {inbox} {number}\r\n")

    def answers(self, steps: list[Step]) -> list[Any]:
        """Return the result of each step."""
        found = [getattr(self, "_" + step[0])(*step[1:]) for step in steps]
        self._client.ask(f"$JS.API.STREAM.DELETE.{self._name}")
        for number in range(INBOXES):
            self._client.write(f"UNSUB {number}\r\n")
        self._client.rest()
        return found

    def _shown(self, *, with_pending: bool = True) -> dict[str, list[list[str]]]:
        messages = [(int(one[0]), *one[1:]) for one in self._client.rest() if one[0] != "r"]
        return self._deliveries.shown(messages, with_pending=with_pending)

    def _stream(self, keys: dict[str, Any]) -> bool:
        fields = {"name": self._name, "subjects": [self._prefix + "s.>"], "storage": "memory"}
        return "error" in self._client.ask(
            f"$JS.API.STREAM.CREATE.{self._name}", {**fields, **keys}
        )

    def _create(self, name: str, keys: dict[str, Any]) -> Any:
        config = {**prefixed(keys, self._prefix), "durable_name": name}
        config["ack_wait"] = NANOSECONDS_OF_AN_HOUR
        body = {"stream_name": self._name, "config": config}
        subject = f"$JS.API.CONSUMER.CREATE.{self._name}.{name}"
        info = self._client.ask(subject, body)
        return [shown_info(info), self._shown()]

    def _publish(self, subjects: list[str]) -> Any:
        for subject in subjects:
            self._client.ask(self._prefix + subject, "data")
        return self._shown(with_pending=False)

    def _pull(self, name: str, body: dict[str, Any], inbox: int) -> Any:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.{name}"
        self._client.publish(subject, json.dumps(body), self._inboxes[inbox])
        return self._shown()

    def _ack(self, name: str, number: int, body: str) -> Any:
        subject = self._deliveries.ack_subject(name, number)
        if subject is None:
            return None
        if body.startswith("+NXT"):
            self._client.publish(subject, body, self._inboxes[0])
            return self._shown()
        answer = self._client.request(subject, body, QUIET_S)
        return [answer[3][:12] if answer is not None else None, self._shown()]

    def _info(self, name: str) -> Any:
        return shown_info(self._client.ask(f"$JS.API.CONSUMER.INFO.{self._name}.{name}"))

    def _delete(self, seq: int) -> Any:
        answer = self._client.ask(f"$JS.API.STREAM.MSG.DELETE.{self._name}", {"seq": seq})
        return ["error" in answer, self._shown()]

    def _purge(self, keys: dict[str, Any]) -> Any:
        body = prefixed(keys, self._prefix)
        answer = self._client.ask(f"$JS.API.STREAM.PURGE.{self._name}", body)
        return [answer["purged"], self._shown()]

    def _reset(self, name: str, seq: int) -> Any:
        subject = f"$JS.API.CONSUMER.RESET.{self._name}.{name}"
        answer = self._client.request(subject, json.dumps({"seq": seq}) if seq else "", QUIET_S)
        if answer is None:
            return [None, self._shown()]
        fields = json.loads(answer[4])
        error = fields.get("error", {}).get("description")
        return [error or fields["reset_seq"], self._shown()]

    def _state(self) -> Any:
        state = self._client.ask(f"$JS.API.STREAM.INFO.{self._name}")["state"]
        return [state["messages"], state["first_seq"], state["last_seq"]]


def record(port: int, first: int, last: int, path: Path) -> None:
    """Write the answers to the programs from `first` to `last`."""
    client = Client(port)
    with path.open("w") as file:
        for seed in range(first, last + 1):
            answers = Run(client, seed).answers(Program(seed).steps())
            file.write(json.dumps([seed, answers], separators=(",", ":")) + "\n")


def main() -> None:
    """Start nats-server, and record."""
    first, last, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder, "conf")
        conf.write_text(
            f'port: -1\nports_file_dir: "{folder}"\njetstream {{ store_dir: "{folder}" }}\n'
        )
        program = Path(sys.executable).with_name("nats-server")
        server = subprocess.Popen([program, "-c", conf], stderr=subprocess.DEVNULL)
        try:
            while not (found := list(Path(folder).glob("*.ports"))):
                time.sleep(0.05)
            time.sleep(0.2)
            url = json.loads(found[0].read_text())["nats"][0]
            record(int(url.rsplit(":", 1)[1]), first, last, path)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
