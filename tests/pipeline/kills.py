"""What the kill tests share: a server, a Spark program that copies a stream, and their kills."""

import base64
import os
import random
import signal
import subprocess
import sys
import time

from tests.pipeline.conftest import Stream

PROGRESS_S = 1800
"""How long the program may need for its next batch after a kill: Spark starts again."""

_FINISH_S = 1800
_BATCH = 800


class Copying:
    """A server with a stream ORDERS that grows, and `copying.py`, which copies it."""

    def __init__(self, server, directory, master):
        self.server = server
        self.published = 0
        self._directory = directory
        self._master = master
        self._partitions = 0
        self._program = None
        self._connect()
        self._start()

    def _connect(self):
        hour_ns = 3600 * 10**9  # a driver is away for longer than the default's two minutes
        self._client = self.server.client()
        self._orders = Stream(self._client, "ORDERS", ["orders.>"])
        self._copies = Stream(self._client, "COPIES", ["copies.>"], duplicate_window=hour_ns)

    def _start(self, *last):
        """Start the program, each time with another number of partitions."""
        self._partitions = self._partitions % 5 + 1
        with (self._directory / "program.log").open("ab") as log:
            self._program = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.pipeline.copying", self._master),
                    *(self.server.url, self._directory, str(self._partitions), *last),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, victim, kills):
        """Kill `kills` times, at random moments, while messages are published and copied."""
        for number in range(1, kills + 1):
            self._orders.publish(_BATCH, start=self.published)
            self.published += _BATCH
            self._wait_for_progress()
            time.sleep(3 * random.random())
            victim()
            if number % 5 == 0:
                self.kill_driver()

    def kill_server(self):
        """Kill the server and start it again after up to three seconds."""
        self._client.close()
        self.server.kill()
        time.sleep(3 * random.random())
        self.server.restart()
        self._connect()

    def kill_driver(self):
        """Kill the driver and its Java at once, and start them again."""
        self._end()
        self._start()

    def _end(self):
        os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait()

    def _wait_for_progress(self):
        """Wait until the sink has stored more than before."""
        before = self._copies.state().last_seq
        deadline = time.monotonic() + PROGRESS_S
        while self._copies.state().last_seq <= before:
            assert self._program.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def finish(self):
        """Copy the rest; return the messages that the sink stored, and the rows of the files."""
        self._end()
        self._start("all")
        assert self._program.wait(_FINISH_S) == 0, self.log()
        self._client.close()  # it answered no PING of the server meanwhile
        self._connect()
        call, end = self._copies.jetstream.call, self._copies.state().last_seq
        answers = [call("STREAM.MSG.GET.COPIES", {"seq": seq}) for seq in range(1, end + 1)]
        stored = [(one["message"]["subject"], one["message"]["data"]) for one in answers]
        copies = [f"{subject} {base64.b64decode(data).decode()}" for subject, data in stored]
        return copies, (self._directory / "rows.txt").read_text().splitlines()

    def require_exact(self):
        """Compare the contents of both copies with the published messages."""
        copies, rows = self.finish()
        numbers = range(self.published)
        assert sorted(copies) == sorted(f"copies.{n % 10} {n}" for n in numbers)
        assert sorted(rows) == sorted(f"{n + 1} orders.{n % 10} {n}" for n in numbers)

    def log(self):
        """Return the end of what the program has written."""
        return (self._directory / "program.log").read_text(errors="replace")[-3000:]

    def close(self):
        """End the program, if it runs."""
        if self._program.poll() is None:
            self._end()
        self._client.close()
