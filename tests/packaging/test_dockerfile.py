"""The Dockerfile, as far as it can be proven without a Docker engine.

Its text is held to the rules that hadolint has for it, and the steps of its build stage run in a
scratch folder, on a context that `.dockerignore` made.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.packaging.processes import run, started_server

Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Split a Dockerfile into pairs of instruction and argument."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines()]  # type: ignore[misc]


@pytest.fixture(scope="module")
def dockerfile(root: Path) -> list[Instruction]:
    return instructions((root / "Dockerfile").read_text())


@pytest.fixture(scope="module")
def build_stage(dockerfile: list[Instruction]) -> list[Instruction]:
    starts = [at for at, (name, _) in enumerate(dockerfile) if name == "FROM"]
    return dockerfile[: starts[1]]


@pytest.fixture(scope="module")
def final_stage(dockerfile: list[Instruction], build_stage: list[Instruction]) -> list[Instruction]:
    return dockerfile[len(build_stage) :]


def arguments(stage: list[Instruction], name: str) -> list[str]:
    return [argument for instruction, argument in stage if instruction == name]


def test_base_images_are_pinned_to_a_version(dockerfile: list[Instruction]) -> None:
    images = [argument.split()[0] for argument in arguments(dockerfile, "FROM")]
    assert len(images) == 2
    assert all(re.fullmatch(r"python:3\.1[1-4](-slim)?-\w+", image) for image in images)


def test_both_stages_run_the_same_python(dockerfile: list[Instruction]) -> None:
    images = [argument.split()[0] for argument in arguments(dockerfile, "FROM")]
    assert images[0].replace("-", "-slim-") == images[1]


def test_files_come_by_copy_and_folders_by_absolute_workdir(dockerfile: list[Instruction]) -> None:
    assert not arguments(dockerfile, "ADD")
    assert not [command for command in arguments(dockerfile, "RUN") if command.startswith("cd ")]
    assert all(path.startswith("/") for path in arguments(dockerfile, "WORKDIR"))


def test_pip_keeps_no_cache_and_follows_the_constraints(dockerfile: list[Instruction]) -> None:
    installs = [command for command in arguments(dockerfile, "RUN") if "pip install" in command]
    assert installs
    for command in installs:
        assert "--no-cache-dir" in command
        assert "--constraint constraints.txt" in command


def test_extras_are_those_of_the_project(
    dockerfile: list[Instruction], build_stage: list[Instruction], root: Path
) -> None:
    assert arguments(build_stage, "ARG") == ["EXTRAS=[server]"]
    (install,) = [line for line in arguments(dockerfile, "RUN") if "pip install" in line]
    assert install.endswith(' ".$EXTRAS"')
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    named = re.findall(r"EXTRAS=\[([\w,]+)\]", (root / "Dockerfile").read_text())
    assert len(named) == 2
    assert {name for one in named for name in one.split(",")} <= {*project["optional-dependencies"]}


def test_final_image_has_no_compiler_and_no_sources(final_stage: list[Instruction]) -> None:
    assert "slim" in arguments(final_stage, "FROM")[0]
    assert not [command for command in arguments(final_stage, "RUN") if "apt" in command]
    assert arguments(final_stage, "COPY") == [
        "--from=build /opt/midge /opt/midge",
        "config.example.toml /etc/midge/config.toml",
    ]


def test_server_runs_as_a_user_without_rights(final_stage: list[Instruction]) -> None:
    (user,) = arguments(final_stage, "USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user), "a number lets Kubernetes check it is not root"


def test_server_is_process_one_and_gets_the_signal(final_stage: list[Instruction]) -> None:
    assert json.loads(arguments(final_stage, "ENTRYPOINT")[0]) == ["midge-server"]
    command = json.loads(arguments(final_stage, "CMD")[0])
    assert command == ["-a", "0.0.0.0", "-c", "/etc/midge/config.toml"]
    assert arguments(final_stage, "STOPSIGNAL") == ["SIGTERM"]


def test_ports_are_the_client_and_the_monitoring_port(final_stage: list[Instruction]) -> None:
    assert arguments(final_stage, "EXPOSE") == ["4222 8222"]


def health_command(final_stage: list[Instruction]) -> list[str]:
    (check,) = arguments(final_stage, "HEALTHCHECK")
    command: list[str] = json.loads(check.split("CMD", maxsplit=1)[1])
    return command


def make_context(root: Path, target: Path) -> None:
    """Copy what `.dockerignore` lets through; the last pattern that matches decides."""
    lines = (root / ".dockerignore").read_text().split("\n")
    patterns = [line for line in lines if line and not line.startswith("#")]
    tracked = run(["git", "ls-files"], cwd=root).splitlines()
    for name in tracked:
        kept = True
        for pattern in patterns:
            glob = pattern.lstrip("!").removeprefix("**/")
            if fnmatch.fnmatch(name, glob) or name.startswith(f"{glob}/"):
                kept = pattern.startswith("!")
        if kept:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)


@pytest.mark.packaging
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_build_steps_give_a_server_that_is_healthy_until_sigterm(
    build_stage: list[Instruction], final_stage: list[Instruction], root: Path, tmp_path: Path
) -> None:
    context, target, home = tmp_path / "src", tmp_path / "opt" / "midge", tmp_path / "home"
    context.mkdir()
    home.mkdir()
    make_context(root, context)
    for command in arguments(build_stage, "RUN"):
        here = command.replace("/opt/midge", str(target)).replace(
            "python -m", f"{sys.executable} -m", 1
        )
        extras = arguments(build_stage, "ARG")[0].partition("=")[2]
        run(["sh", "-ec", here], cwd=context, env=os.environ | {"EXTRAS": extras})

    example = context / "config.example.toml"
    with started_server([target / "bin" / "midge-server", "-c", example], home) as (process, port):
        program, *rest = health_command(final_stage)
        assert program == "python"
        check = [str(target / "bin" / program), *(part.replace("4222", str(port)) for part in rest)]
        run(check)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert subprocess.run(check, check=False, capture_output=True).returncode != 0
