"""Start and stop the servers under test."""

import shlex
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import procfs, wire

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
_START_ATTEMPTS = 3
_OUTPUT_TAIL_BYTES = 2000


class StartError(Exception):
    """A server under test did not start; the text has the end of its output."""


@dataclass(frozen=True)
class Command:
    """A server command without its address flags.

    `name` is for reports; the server may take `patience_s` to start.
    """

    name: str
    argv: tuple[str, ...]
    patience_s: float = START_TIMEOUT_S

    @classmethod
    def parse(cls, text: str, name: str = "") -> "Command":
        """Split a command as a shell would; without `name`, its program is its name.

        Raises:
            StartError: the text is empty.
        """
        argv = tuple(shlex.split(text))
        if not argv:
            raise StartError("expected a server command, got an empty string")
        return cls(name or Path(argv[0]).name, argv)


@dataclass(frozen=True)
class Server:
    """A running server under test."""

    name: str
    pid: int
    address: wire.Address
    monitoring_port: int = 0
    """Port of its monitoring pages, if it was started with them."""

    @property
    def subscriber_address(self) -> wire.Address:
        """The address for subscribers."""
        return self.address

    def settle(self) -> None:
        """Wait until the publishers' server knows all subscriptions: a single one knows at once."""

    def cpu_s(self) -> float:
        """Return the CPU time used so far, threads and child processes included."""
        return procfs.cpu_s(self.pid)

    def rss_bytes(self) -> int:
        """Return the resident memory, child processes included."""
        return procfs.rss_bytes(self.pid)


@contextmanager
def running(
    command: Command,
    flags: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
    *,
    monitored: bool = False,
    jetstream: bool = False,
) -> Iterator[Server]:
    """Run a server on a free loopback port for the length of the block.

    With `monitored`, it serves its pages by HTTP. With `jetstream`, it has its own store directory
    on the disk with the temporary files, which is removed at the end.

    Raises:
        StartError: it ended early or does not greet with INFO in time.
    """
    pages = free_port() if monitored else 0
    more: tuple[str, ...] = ("-m", str(pages)) if monitored else ()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as store:
        if jetstream:
            more = (*more, "-js", "-sd", store)
        process, port = _start([*command.argv, *flags, *more], output, command.patience_s)
        try:
            address = wire.Address("127.0.0.1", port, tls)
            yield Server(command.name, process.pid, address, pages)
        finally:
            _stop(process)


def unwind_on_sigterm() -> None:
    """Make SIGTERM run the program's `finally` blocks, so that no server outlives it."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1; return its file and its key's file.

    Raises:
        StartError: there is no working openssl.
    """
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", str(key)]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)]
    try:
        subprocess.run(argv, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StartError(f"cannot make a certificate with openssl: {error}") from None
    return certificate, key


def _start(
    argv: Sequence[str], output: IO[bytes], patience_s: float
) -> tuple[subprocess.Popen[bytes], int]:
    # Try again if another program takes the port between our check and the server's bind.
    for attempt in range(1, _START_ATTEMPTS + 1):
        port = free_port()
        address_flags = ["-a", "127.0.0.1", "-p", str(port)]
        try:
            process = subprocess.Popen([*argv, *address_flags], stdout=output, stderr=output)
        except OSError as error:
            raise StartError(f"cannot run {argv[0]}: {error.strerror}") from None
        try:
            _await_greeting(process, port, patience_s)
        except StartError as error:
            _stop(process)
            if attempt == _START_ATTEMPTS:
                raise StartError(f"{shlex.join(argv)}: {error}\n{_tail(output)}") from None
        else:
            return process, port
    raise AssertionError("the last attempt either returns or raises")


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_greeting(process: subprocess.Popen[bytes], port: int, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(f"the server ended with status {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1.0) as sock:
                if sock.recv(5) == b"INFO ":
                    return
        except OSError:
            time.sleep(0.02)
    raise StartError(f"the server did not greet within {patience_s:g} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read()[-_OUTPUT_TAIL_BYTES:].decode(errors="replace")
