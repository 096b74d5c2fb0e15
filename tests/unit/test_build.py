"""The build, as far as that takes no minute."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def build(root: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the extension modules; the tests here fail before that."""
    words = ["setup.py", "--quiet", "build_ext", "--build-lib", folder, "--build-temp", folder]
    known = {name: value for name, value in os.environ.items() if name != "MIDGE_PURE"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=known | environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_without_a_compiler_one_line_says_what_to_do(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, CC="no-such-compiler -O2")
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("midge: cannot compile without the C compiler 'no-such-compiler': ")
    assert "apt install gcc" in line
    assert "MIDGE_PURE=1" in line


def test_only_the_user_decides_to_do_without(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, CC="no-such-compiler", MIDGE_PURE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A checkout of two modules to compile, which takes two seconds."""
    package = tmp_path / "midge" / "protocol"
    package.mkdir(parents=True)
    shutil.copy(root / "setup.py", tmp_path)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
        (folder / "__init__.pxd").touch()
    for name in ("one", "two"):
        (package / f"{name}.py").write_text("def twice(n):\n    return n * 2\n")
        (package / f"{name}.pxd").write_text("cpdef Py_ssize_t twice(Py_ssize_t n)\n")
    return tmp_path


def compile_in(checkout: Path, *words: str) -> list[str]:
    """Build in place without optimization; return the output."""
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", *words],
        cwd=checkout,
        env={**os.environ, "CFLAGS": "-O0", "MIDGE_PURE": ""},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return (done.stdout + done.stderr).splitlines()


def make_newer(path: Path) -> None:
    at = path.stat().st_mtime + 60
    os.utime(path, (at, at))


def test_a_build_compiles_what_has_changed_and_prints_a_line_for_each_module(
    checkout: Path,
) -> None:
    package = checkout / "midge" / "protocol"
    printed = compile_in(checkout, "--inplace")
    assert [line.split()[0] for line in printed] == ["[1/2]", "[2/2]"]
    assert {line.split()[1] for line in printed} == {"midge.protocol.one", "midge.protocol.two"}
    assert len(list(package.glob("*.so"))) == 2
    assert compile_in(checkout, "--inplace") == []
    make_newer(package / "two.py")
    assert compile_in(checkout, "--inplace") == ["[1/1] midge.protocol.two"]


def test_a_compiler_that_fails_ends_the_build(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=checkout,
        env={**os.environ, "CC": "false", "MIDGE_PURE": ""},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(r"^error: .*false.* (failed|returned non-zero)", done.stderr, re.MULTILINE)
    assert list((checkout / "midge" / "protocol").glob("*.so")) == []


@pytest.mark.parametrize(
    ("declaration", "place"),
    [
        ("cdef int include(self)", "two.pxd:1:9: "),
        ("cpdef Py_ssize_t twice(Py_ssize_t n, int m)", "two.py:1:0: "),
    ],
)
def test_a_wrong_declaration_is_named_without_a_traceback(
    declaration: str, place: str, checkout: Path
) -> None:
    (checkout / "midge" / "protocol" / "two.pxd").write_text(declaration + "\n")
    done = build(checkout, checkout / "build")
    assert done.returncode == 1
    assert place in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: Cython cannot ")
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_build(checkout: Path) -> None:
    slow = checkout / "midge" / "protocol" / "slow.py"
    slow.write_text("".join(f"def f{n}(x):\n    return x[{n}] + 1\n" for n in range(900)))
    slow.with_suffix(".pxd").write_text("cpdef object f0(object x)\n")
    process = subprocess.Popen(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=checkout,
        env={**os.environ, "MIDGE_PURE": ""},
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith("[1/3] midge.protocol.")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=50)
    assert process.returncode != 0
    assert list(slow.parent.glob("*.so")) == []


def test_a_build_that_is_not_in_place_leaves_the_sources_alone_until_one_is(checkout: Path) -> None:
    package = checkout / "midge" / "protocol"
    assert len(compile_in(checkout)) == 2
    assert list(package.glob("*.so")) == []
    assert compile_in(checkout, "--inplace") == []
    assert len(list(package.glob("*.so"))) == 2


@pytest.mark.parametrize("page", ["README.md"])
def test_the_speed_table_is_of_code_that_there_is(root: Path, page: str) -> None:
    assert "uncommitted" not in (root / page).read_text()


def test_a_module_is_outdated_when_a_header_is_newer_that_it_inlines(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = runpy.run_path(str(root / "setup.py"))
    monkeypatch.chdir(root)
    headers = setup["headers_by_module"]()
    name = "midge.server.routing.router"
    router = setup["headers_of"](name, headers)
    named = {str(path) for path in router}
    assert "midge/protocol/frame.pxd" in named  # by way of others
    assert "midge/protocol/memory.pxd" in named  # cimported from its package
    assert "midge/server/channels/channel.pxd" not in named
    built = tmp_path / "router.so"
    assert setup["is_outdated"](built, name, headers)
    source = root / "midge" / "server" / "routing" / "router.py"
    newest = max(path.stat().st_mtime for path in (*router, source, root / "setup.py"))
    for made, is_fresh in ((newest + 1, True), (newest - 1, False)):
        built.touch()
        os.utime(built, (made, made))
        assert setup["is_outdated"](built, name, headers) is not is_fresh


TRANSLATE = """
import os, runpy, sys
from Cython.Build import cythonize
setup = runpy.run_path("setup.py")
folder, *modules = sys.argv[1:]
setup["heed_no_gc"](), setup["heed_final"](), setup["import_what_is_used"]()
options = {
    "build_dir": folder, "compiler_directives": setup["DIRECTIVES"], "include_path": ["."]
}
found = [extension for extension in setup["extensions"]() if extension.name in modules]
if os.path.basename(folder) == "shared":
    setup["share_declarations"]([extension.name for extension in found], options)
cythonize(found, force=True, quiet=True, **options)
"""


def test_declarations_that_are_analysed_once_give_the_same_c_code(
    root: Path, tmp_path: Path
) -> None:
    """Of modules that reach each other's inline functions; the files have other numbers."""
    modules = ["midge.server.clock", "midge.sublist.mutex", "midge.sublist.recent"]
    modules += ["midge.jetstream.consumer.consumer_log", "midge.server.routing.subscription"]
    for kind in ("plain", "shared"):
        for some in [modules] if kind == "shared" else [[name] for name in modules]:
            command = [sys.executable, "-c", TRANSLATE, str(tmp_path / kind), *some]
            subprocess.run(command, cwd=root, env={**os.environ, "MIDGE_PURE": ""}, check=True)
    written = sorted((tmp_path / "plain").rglob("*.c"))
    assert len(written) == 4  # the clock has inline functions only
    for path in written:
        shared = tmp_path / "shared" / path.relative_to(tmp_path / "plain")
        plain_lines, shared_lines = (
            sorted(re.sub(r"PYX_ERR\(\d+|/\*.*?\*/", "", one.read_text()).splitlines())
            for one in (path, shared)
        )
        assert shared_lines == plain_lines, path


def test_each_module_that_is_optimized_is_compiled(root: Path) -> None:
    setup = runpy.run_path(str(root / "setup.py"))
    listed = [module for modules in setup["LEVELS"].values() for module in modules]
    assert len(listed) == len(set(listed))
    assert set(listed) - set(setup["compiled_modules"](root)) == set()
