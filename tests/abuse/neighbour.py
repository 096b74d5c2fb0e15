"""A client of another account that asks the server one thing after the other, and measures waits.

Run as ``python -m tests.abuse.neighbour HOST PORT CONNECT PID``. A wait is the processor time that
the main thread of the server, process PID, used between a question and its answer, so that other
processes of a loaded machine do not count; neither does the time for which this process waited for
a processor while its answer lay there. It prints ``ready`` once its stream is made, asks until
standard input is closed, and then prints the longest wait in seconds of each kind of question.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

from tests.support.scheduling import ran_s, waited_s

PAUSE_S = 0.001
TIMEOUT_S = 120.0
STREAM = b'{"name":"N","subjects":["n"],"storage":"memory","max_msgs":10,"allow_direct":true}'
QUESTIONS = {
    "message": b"PUB inbox 2\r\n{}\r\n",
    "publish": b"PUB n inbox 2\r\n{}\r\n",
    "get": b"PUB $JS.API.DIRECT.GET.N.n inbox 0\r\n\r\n",
    "info": b"PUB $JS.API.STREAM.INFO.N inbox 0\r\n\r\n",
}


class Neighbour:
    """One connection that waits for each answer before it asks again."""

    def __init__(self, host: str, port: int, connect: str, pid: int) -> None:
        self._pid = pid
        self._client = socket.create_connection((host, port), TIMEOUT_S)
        self._client.sendall(f"CONNECT {connect}\r\nSUB inbox 1\r\n".encode())
        self._got = b""
        self.longest_s = dict.fromkeys(QUESTIONS, 0.0)
        request = b"PUB $JS.API.STREAM.CREATE.N inbox %d\r\n%b\r\n" % (len(STREAM), STREAM)
        self._ask(request)

    def _ask(self, question: bytes) -> None:
        self._client.sendall(question)
        while True:
            head, end, rest = self._got.partition(b"\r\n")
            if end and head[:4] in {b"MSG ", b"HMSG"}:
                size = int(head.rpartition(b" ")[2]) + 2
                if len(rest) >= size:
                    self._got = rest[size:]
                    return
            elif end:
                self._got = rest
                if head == b"PING":
                    self._client.sendall(b"PONG\r\n")
                continue
            piece = self._client.recv(1 << 16)
            if not piece:
                raise EOFError(self._got)
            self._got += piece

    def ask_all(self) -> None:
        """Ask each question once."""
        for kind, question in QUESTIONS.items():
            before_s, own_before_s = ran_s(self._pid), waited_s()
            self._ask(question)
            wait_s = ran_s(self._pid) - before_s - (waited_s() - own_before_s)
            self.longest_s[kind] = max(self.longest_s[kind], wait_s)
            time.sleep(PAUSE_S)


def main(host: str, port: int, connect: str, pid: int) -> None:
    neighbour = Neighbour(host, port, connect, pid)
    neighbour.ask_all()
    neighbour.longest_s = dict.fromkeys(QUESTIONS, 0.0)
    print("ready", flush=True)
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    while not is_over.is_set():
        neighbour.ask_all()
    print(json.dumps(neighbour.longest_s))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
