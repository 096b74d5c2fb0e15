"""From the checkout to an sdist, a wheel, a clean virtual environment and a server that answers."""

from __future__ import annotations

import os
import runpy
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging import wheels
from tests.packaging.processes import python_environment, run, started_server
from tests.packaging.wheels import faults
from tests.unit.midge.surfaces import lists, sources

BARE = {"midge", "msgspec", "nats-py", "pip", "setuptools", "structlog", "uvloop"}
"""All that an environment with a server and its client has."""

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def dist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it, each in an isolated environment."""
    folder = tmp_path_factory.mktemp("dist")
    environment = os.environ | {"PIP_CONSTRAINT": str(root / "constraints.txt")}
    environment.pop("MIDGE_PURE", None)
    run([sys.executable, "-m", "build", "--outdir", folder, root], env=environment)
    return folder


@pytest.fixture(scope="module")
def unpacked_sdist(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist's files."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        archive.extractall(folder, **safely)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def clean_environment(dist: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and its dependencies, and nothing else."""
    wheel = next(dist.glob("*.whl"))
    return python_environment(tmp_path_factory.mktemp("clean"), wheel, root / "constraints.txt")


def test_compiled_wheel_serves_a_client_and_embeds(dist: Path, root: Path, tmp_path: Path) -> None:
    wheel, constraints = next(dist.glob("*.whl")), root / "constraints.txt"
    programs = python_environment(tmp_path / "venv", wheel, constraints, "nats-py")
    run([programs / "python", root / "tests/packaging/installed.py", "compiled"], cwd=tmp_path)


def package_files(root: Path) -> set[str]:
    """List what of the checkout belongs to the import package, as paths below midge/."""
    folders = [path.name for path in (root / "midge").iterdir() if path.is_symlink()]
    tracked = run(["git", "ls-files", "midge", *folders], cwd=root).splitlines()
    links = {f"midge/{folder}" for folder in folders}
    return {name if name.startswith("midge/") else f"midge/{name}" for name in tracked} - links


def test_sdist_holds_real_files_and_nothing_built(dist: Path, root: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert all(member.isfile() or member.isdir() for member in members)
    names = {member.name.split("/", maxsplit=1)[-1] for member in members}
    assert package_files(root) <= names
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md", "constraints.txt"} <= names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


def test_sdist_holds_what_is_listed(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    assert lists.differences("distributed", set(sources.distributed_files(names))) == []


def test_wheel_holds_the_sources_and_every_extension(dist: Path, root: Path) -> None:
    wheel = next(dist.glob("*.whl"))
    assert faults(wheel, wheels.package_files(next(dist.glob("*.tar.gz")))) == []
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = runpy.run_path(str(root / "setup.py"))["compiled_modules"](root)
    extensions = {name.split(".", maxsplit=1)[0] for name in names if name.endswith(".so")}
    assert extensions == {str(source.with_suffix("")) for source in modules.values()}
    tops = {name.split("/", maxsplit=1)[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"midge"}


def test_wheel_from_a_clean_environment_starts_and_answers(
    clean_environment: Path, tmp_path: Path
) -> None:
    with started_server([clean_environment / "midge-server"], tmp_path) as (process, port):
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            received = b""
            while b"PONG\r\n" not in received:
                chunk = client.recv(65536)
                assert chunk, f"closed after {received!r}"
                received += chunk
        assert received.startswith(b"INFO {")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_installed_midge_leaves_the_users_own_packages_alone(
    clean_environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "__init__.py").write_text("mine = True\n")
    (tmp_path / "main.py").write_text(
        "import server, midge.server, midge.protocol, midge.sublist\n"
        "assert server.mine and 'site-packages' in midge.server.__file__\n"
    )
    run([clean_environment / "python", "main.py"], cwd=tmp_path)


def test_version_comes_from_one_place(clean_environment: Path, tmp_path: Path) -> None:
    code = "import importlib.metadata as m, midge; assert m.version('midge') == midge.__version__"
    run([clean_environment / "python", "-c", code], cwd=tmp_path)


def wheel_command(source: Path, target: Path) -> list[str | Path]:
    """Build a wheel of `source` with the build tools of this environment."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    return [*pip, "--wheel-dir", target, source]


def test_pure_switch_builds_a_wheel_for_any_platform(
    dist: Path, unpacked_sdist: Path, root: Path, tmp_path: Path
) -> None:
    run(wheel_command(unpacked_sdist, tmp_path), env=os.environ | {"MIDGE_PURE": "1"})
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert faults(wheel, wheels.package_files(next(dist.glob("*.tar.gz")))) == []
    programs = python_environment(tmp_path / "venv", wheel, root / "constraints.txt", "nats-py")
    listed = run([programs / "python", "-m", "pip", "list", "--format=freeze"]).splitlines()
    assert {line.split("==")[0] for line in listed} <= BARE
    run([programs / "python", root / "tests/packaging/installed.py", "pure"], cwd=tmp_path)


def test_failing_compiler_fails_the_build(unpacked_sdist: Path, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "MIDGE_PURE"}
    built = subprocess.run(
        wheel_command(unpacked_sdist, tmp_path),
        env=environment | {"CC": "false"},
        capture_output=True,
        check=False,
    )
    assert built.returncode != 0
    assert not list(tmp_path.glob("*.whl"))
