"""The files of `deploy/`, each checked by its own tool, and systemd's protocol on a server."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from midge.server.monitoring import metrics, stream_metrics
from midge.server.process.systemd import ServiceManager
from tests.conftest import ROOT
from tests.packaging.processes import run, started_server
from tests.support.processes import midge_command

TIMEOUT_S = 60


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / "deploy" / name).read_text())


@pytest.fixture
def socket_of_systemd(tmp_path: Path) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(TIMEOUT_S)
        yield receiver


def wait_for(receiver: socket.socket, state: str) -> None:
    while not receiver.recv(4096).decode().startswith(state):
        pass


def test_started_server_reports_each_state(
    tmp_path: Path, socket_of_systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", socket_of_systemd.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with started_server(midge_command(), tmp_path) as (process, _):
        wait_for(socket_of_systemd, "READY=1")
        wait_for(socket_of_systemd, "WATCHDOG=1")
        wait_for(socket_of_systemd, "WATCHDOG=1")
        process.send_signal(signal.SIGHUP)
        wait_for(socket_of_systemd, "RELOADING=1\nMONOTONIC_USEC=")
        wait_for(socket_of_systemd, "READY=1")
        process.send_signal(signal.SIGTERM)
        wait_for(socket_of_systemd, "STOPPING=1")
        assert process.wait(TIMEOUT_S) == 0


PASSED = """
import os, sys
number, *command = sys.argv[1:]
os.dup2(int(number), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(command[0], command)
"""
"""Start a program with a socket, as systemd does."""


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_server_takes_the_socket_that_systemd_passes_on(tmp_path: Path, workers: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # It waits in the queue of the socket while no server runs.
        client = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        passed = ["-c", PASSED, str(listener.fileno()), *midge_command(), "-p", str(port)]
        flags = ["-a", "127.0.0.1", "-l", str(tmp_path / "log"), *workers]
        process = subprocess.Popen([sys.executable, *passed, *flags], pass_fds=[listener.fileno()])
        try:
            with client:
                assert client.recv(5) == b"INFO "
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
        # The socket is systemd's: it still takes connections, for the next server.
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()


def test_socket_without_a_listener_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", PASSED, str(listener.fileno()), *midge_command()]
        flags = ["-a", "127.0.0.1", "-p", "-1", "-l", str(tmp_path / "log")]
        with subprocess.Popen([*command, *flags], pass_fds=[listener.fileno()]) as process:
            try:
                while "Server is ready" not in read(tmp_path / "log"):
                    assert process.poll() is None
            finally:
                process.kill()
    assert f"no listener has port {port}, of a socket" in read(tmp_path / "log")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_server_is_activated_by_its_first_client(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    if shutil.which("systemd-socket-activate"):
        command = ["systemd-socket-activate", f"--listen=127.0.0.1:{port}", *midge_command()]
        flags = ["-a", "127.0.0.1", "-p", str(port), "-l", str(tmp_path / "log")]
        with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE) as process:
            try:
                assert process.stderr is not None
                process.stderr.readline()  # it listens
                with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client:
                    assert client.recv(5) == b"INFO "
                process.terminate()
                assert process.wait(TIMEOUT_S) == 0
            finally:
                process.kill()


async def test_watchdog_of_another_process_is_left_alone(socket_of_systemd: socket.socket) -> None:
    environment = {
        "NOTIFY_SOCKET": socket_of_systemd.getsockname(),
        "WATCHDOG_USEC": "1000",
        "WATCHDOG_PID": "1",
    }
    manager = ServiceManager(environment)
    manager.keep_alive()
    await asyncio.sleep(0.01)
    manager.ready()
    assert socket_of_systemd.recv(4096) == b"READY=1"
    assert environment == {}


def test_absent_service_manager_stops_nothing(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    ServiceManager({}).ready()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_unit_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "midge.service").read_text()
    unit = tmp_path / "midge.service"
    # The program must exist where the unit is checked.
    unit.write_text(text.replace("/opt/midge/bin/midge-server", "/bin/true"))
    assert "Type=notify\n" in text
    activation = shutil.copy(ROOT / "deploy" / "midge.socket", tmp_path)
    output = run(["systemd-analyze", "verify", "--man=no", unit, activation])
    assert "midge." not in output, output


def test_compose_file_mounts_what_the_image_writes() -> None:
    service = parsed("compose.yaml")["services"]["midge"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    volume, _, path = service["volumes"][0].partition(":")
    assert volume in parsed("compose.yaml")["volumes"]
    assert f"--mode=0750 {path}\n" in dockerfile
    assert service["command"][-1] == path
    # The command replaces the image's: it must be one that the server takes.
    config = ROOT / "config.example.toml"
    run([*midge_command(), *service["command"], "-c", config, "-t"])


def status_of(url: str) -> int:
    """Return the HTTP status of a page, as a probe sees it."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_pod_leaves_by_lame_duck_mode_while_it_is_alive(tmp_path: Path) -> None:
    """The configuration, the probes and the hook of the manifest, with paths of this test."""
    config, service, workload = yaml.safe_load_all(
        (ROOT / "deploy" / "kubernetes.yaml").read_text()
    )
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert service["spec"]["ports"][0]["port"] == ports["nats"] == 4222
    assert {one["name"] for one in container["volumeMounts"]} == {"streams", "config", "tmp"}
    text = config["data"]["midge.conf"]
    assert f"0.0.0.0:{ports['http']}" in text
    paths = {"/tmp/": f"{tmp_path}/", "/var/lib/midge": f"{tmp_path}/store", "0.0.0.0": "127.0.0.1"}
    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    for old, new in paths.items():
        assert old in text
        text = text.replace(old, new)
        hook = [word.replace(old, new) for word in hook]
    (tmp_path / "midge.conf").write_text(text.replace(f":{ports['http']}", ":-1"))
    with started_server([*midge_command(), "-c", tmp_path / "midge.conf"], tmp_path) as (
        process,
        port,
    ):
        (announced,) = tmp_path.glob("*.ports")
        (address,) = json.loads(announced.read_text())["monitoring"]
        ready, alive = (
            address.rstrip("/") + container[f"{probe}Probe"]["httpGet"]["path"]
            for probe in ("readiness", "liveness")
        )
        assert (status_of(ready), status_of(alive)) == (200, 200)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"CONNECT {}\r\nPING\r\n")
            client.recv(4096)
            run([*midge_command(), *hook[1:]])
            while status_of(ready) != 503:
                pass
            assert status_of(alive) == 200
        assert process.wait(TIMEOUT_S) == 0
    seconds = re.search(r"lame_duck_duration: (\d+)s", text)
    assert seconds is not None
    assert int(seconds[1]) < pod["terminationGracePeriodSeconds"]


def test_alerts_use_metrics_of_the_server() -> None:
    sources = "".join(Path(str(one.__file__)).read_text() for one in (metrics, stream_metrics))
    rules = [rule for group in parsed("alerts.yaml")["groups"] for rule in group["rules"]]
    names = {name for rule in rules for name in re.findall(r"midge_\w+", rule["expr"])}
    assert len(names) >= 5
    for name in names:
        stem = name.removesuffix("_total")
        assert f'"{stem}"' in sources or f'"{stem.removeprefix("midge_")}"' in sources, name


def test_alerts_are_valid() -> None:
    for group in parsed("alerts.yaml")["groups"]:
        for rule in group["rules"]:
            assert rule.keys() >= {"alert", "expr", "labels", "annotations"}, rule
    if shutil.which("promtool"):
        run(["promtool", "check", "rules", ROOT / "deploy" / "alerts.yaml"])


def test_logrotate_sends_the_signal_that_reopens_the_log(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "midge.logrotate").read_text()
    assert "--signal=SIGUSR1 midge.service" in text
    if shutil.which("logrotate"):
        copy = tmp_path / "midge.logrotate"
        copy.write_text(text.replace("    su midge midge\n", ""))  # that user is not here
        copy.chmod(0o644)
        subprocess.run(["logrotate", "--debug", copy], check=True)
