"""Run small programs of other projects' libraries on nats-server and on midge, and compare.

    python -m tests.third_party.run DIRECTORY [--suite-dir CHECKOUT] [--only NAME]...

DIRECTORY gets an environment and a `node_modules` of its own, made when it has none; that needs
the package registries. What a program prints must be the same on both servers. With `--suite-dir`,
a checkout of the Python client's repository, its own examples run as well.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.processes import Server, midge_command, nats_server_command

PROGRAMS = Path(__file__).parent / "programs"
PYTHON_PACKAGES = ("faststream[nats]", "taskiq-nats", "walnats", "nats-py")
NODE_PACKAGES = ("transport-node", "jetstream", "kv", "obj")
EXAMPLES = ("jetstream.py", "kv.py", "advanced.py", "simple.py")
TIMEOUT_S = 90.0


def main() -> int:
    """Install missing parts, and run everything on both servers."""
    options = _parse_arguments()
    python = _python(options.directory)
    node = _node(options.directory)
    commands = {one.name: [python, str(one)] for one in sorted(PROGRAMS.glob("*_*.py"))}
    example = commands.pop("nats_py_example.py")
    for one in sorted(PROGRAMS.glob("*.mjs")):
        commands[one.name] = ["node", str(shutil.copy(one, node))]
    if options.suite_dir:
        for name in EXAMPLES:
            path = options.suite_dir / "nats" / "examples" / name
            commands[f"nats-py {name}"] = [*example, "URL", str(path)]
    chosen = {name: command for name, command in commands.items() if _is_chosen(name, options.only)}
    results = {name: _compare(name, command) for name, command in chosen.items()}
    print(f"{sum(results.values())} of {len(results)} programs do the same on both servers")
    return 0 if all(results.values()) else 1


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="where the libraries are put")
    parser.add_argument("--suite-dir", type=Path, help="checkout of the Python client's repository")
    parser.add_argument("--only", action="append", default=[], help="part of a program's name")
    return parser.parse_args()


def _is_chosen(name: str, parts: list[str]) -> bool:
    return not parts or any(part in name for part in parts)


def _python(directory: Path) -> str:
    """Return the interpreter of the environment, after making it."""
    python = directory / "python" / "bin" / "python"
    if not python.exists():
        venv.create(directory / "python", with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES]
        subprocess.run(pip, check=True)
    return str(python)


def _node(directory: Path) -> Path:
    """Return the folder with `node_modules`, after making it."""
    folder = directory / "node"
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        packages = [f"@nats-io/{name}" for name in NODE_PACKAGES]
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", *packages]
        subprocess.run(npm, cwd=folder, check=True)
    return folder


def _compare(name: str, command: list[str]) -> bool:
    """Run a program on both servers; return whether it did the same, and print what differs.

    The lines of an example are compared without their order, because its callbacks run in any
    order.
    """
    expected = run_on(nats_server_command(), command)
    found = run_on(midge_command(), command)
    if "URL" in command:
        expected, found = (sorted(one[:-1]) + one[-1:] for one in (expected, found))
    if found == expected and expected[-1] == "exit 0":
        print(f"{name}: the same, {len(found) - 1} lines", flush=True)
        return True
    print(f"{name}: differs", flush=True)
    for line in difflib.unified_diff(expected, found, "nats-server", "midge", lineterm="", n=1):
        print(f"  {line}")
    if found == expected:
        print("  " + "\n  ".join(found[-20:]))
    return False


def run_on(server_command: list[str], command: list[str]) -> list[str]:
    """Run a program against a new server; return what it printed, and how it ended."""
    with Server(server_command, 'jetstream { store_dir: "@directory@/store" }') as server:
        host, port = server.address()
        url = f"nats://{host}:{port}"
        line = [url if part == "URL" else part for part in command]
        if "URL" not in command:
            line.append(url)
        try:
            done = subprocess.run(
                line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            printed = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
            return [*printed.splitlines(), "timeout"]
    lines = done.stdout.replace(f":{port}", ":PORT").splitlines()
    if done.returncode:
        lines += done.stderr.splitlines()[-8:]
    return [*lines, f"exit {done.returncode}"]


if __name__ == "__main__":
    sys.exit(main())
