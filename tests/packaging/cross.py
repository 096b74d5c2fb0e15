"""Cross-compile a wheel with zig: `python -m tests.packaging.cross FOLDER ARCHITECTURE ROOT`.

ROOT is a folder with the unpacked Debian packages of a Python for the architecture, `python3.11`
and `libpython3.11-dev` with what they depend on. The wheel is tried there by `installed.py`, in a
chroot under qemu-user, so this needs root. Programs of another architecture cannot start each
other, but for scripts whose first line names qemu. For musl, ROOT has the headers of this
machine's Python, and nothing is tried.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.packaging import wheels
from tests.packaging.processes import run
from tests.packaging.pythons import ROOT, TOOLS, environment, pip

TOOLS_OF_BUILD = ("setuptools>=80,<90", "setuptools_scm", "Cython>=3.3,<3.4", "wheel")
MUSL_TAG = "musllinux_1_2_x86_64"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Target(NamedTuple):
    """How an architecture is called by zig, Debian and qemu."""

    zig: str
    multiarch: str
    qemu: str = ""
    from_source: tuple[str, ...] = ()
    """The dependencies for which PyPI has no wheel."""
    left_out: tuple[str, ...] = ()


TARGETS = {
    "aarch64": Target("aarch64-linux-gnu.2.28", "aarch64-linux-gnu", "aarch64"),
    "armv7l": Target(
        "arm-linux-gnueabihf.2.31", "arm-linux-gnueabihf", "arm", ("msgspec",), ("uvloop",)
    ),
    "musl": Target("x86_64-linux-musl", "x86_64-linux-musl"),
}


class CrossBuilder:
    """Builds wheels for `architecture` in `folder`, with the headers in `root`."""

    def __init__(self, folder: Path, architecture: str, root: Path) -> None:
        self.folder = folder
        self.architecture = architecture
        self.target = TARGETS[architecture]
        self.root = root
        self._programs = environment(folder / "tools", sys.executable)
        run([*pip(self._programs), *TOOLS, *TOOLS_OF_BUILD])
        self._variables = self._environment()

    def _environment(self) -> Mapping[str, str]:
        """Return the variables that make setuptools build for the target."""
        target, multiarch = self.target, self.target.multiarch
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        name = f"_sysconfigdata__{multiarch}"
        if target.qemu:
            shutil.copy(self.root / f"usr/lib/python{VERSION}/{name}.py", data)
            machine = self.architecture
        else:  # the same but for the names of extension modules
            machine = multiarch.partition("-")[0]
            (data / f"{name}.py").write_text(
                "import importlib\n"
                f"here = importlib.import_module('_sysconfigdata__linux_{machine}-linux-gnu')\n"
                "build_time_vars = {\n    name: value.replace('-linux-gnu', '-linux-musl')\n"
                "    if isinstance(value, str) else value\n"
                "    for name, value in here.build_time_vars.items()\n}\n"
            )
        headers = self.root / "usr/include" if target.qemu else self.root
        compiler = f"{self._programs} -m ziglang cc -target {target.zig}"
        return {
            **os.environ,
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
            "_PYTHON_SYSCONFIGDATA_NAME": name,
            "PYTHONPATH": str(data),
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared -Wl,--gc-sections",  # most of compiler-rt
            # zig has libc's headers; those of ROOT would take its place with -I.
            "CFLAGS": f"-I{headers / f'python{VERSION}'} -idirafter {headers}",
        }

    def wheel(self, source: Path) -> Path:
        """Build the sdist `source`; return the wheel with its platform's tag."""
        unpacked = self.folder / "unpacked"
        with tarfile.open(source) as archive:
            archive.extractall(unpacked, filter="data")
        made = self.folder / "built"
        name = source.name.removesuffix(".tar.gz")
        command = [self._programs, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", made]
        program = "import setuptools, runpy; runpy.run_path('setup.py', run_name='__main__')"
        run([command[0], "-c", program, *command[2:]], unpacked / name, self._variables)
        wheel = next(made.glob(f"{name}-*.whl"))
        if not self.target.qemu:  # auditwheel looks for musl's library on this machine
            with zipfile.ZipFile(wheel) as archive:
                libraries = [one for one in archive.namelist() if one.endswith(".so")]
                assert not any(b"libc.so.6" in archive.read(one) for one in libraries)
            tag = ["--remove", "--platform-tag", MUSL_TAG, wheel]
            return made / run([self._programs, "-m", "wheel", "tags", *tag]).strip()
        path = os.environ | {"PATH": f"{self._programs.parent}:{os.environ['PATH']}"}
        repair = ["-m", "auditwheel", "repair", "--plat", "auto"]
        run([self._programs, *repair, "--wheel-dir", self.folder / "dist", wheel], env=path)
        wheel.unlink()
        return next((self.folder / "dist").glob(f"{name}-*.whl"))

    def dependency(self, name: str) -> Path:
        """Build the newest release of a distribution."""
        folder = self.folder / "sdist"
        command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
        run([self._programs, *command, "--no-build-isolation", "--dest", folder, name])
        return self.wheel(next(folder.glob(f"{name}-*.tar.gz")))


def attempt(builder: CrossBuilder, wheel: Path) -> str:
    """Install `wheel` for the target's Python, use it under qemu, and return the figures."""
    root, target = builder.root, builder.target
    emulator = f"qemu-{target.qemu}-static"
    shutil.copy(Path("/usr/bin") / emulator, root)
    for name in ("tmp", "proc", "dev", "trial/bin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    own = root / "trial"
    (own / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    python = own / "bin/python"
    python.unlink(missing_ok=True)
    python.symlink_to(f"/usr/bin/python{VERSION}")
    site = own / f"lib/python{VERSION}/site-packages"
    shutil.rmtree(site, ignore_errors=True)
    built = [builder.dependency(name) for name in target.from_source]
    others = {"structlog", "msgspec", "uvloop", "nats-py"} - {*target.from_source, *target.left_out}
    command = [*pip(Path(sys.executable)), "--no-deps", "--only-binary", ":all:"]
    command += ["--target", site, "--python-version", VERSION, "--implementation", "cp"]
    tags = {tag for one in (wheel, *built) for tag in one.stem.rpartition("-")[2].split(".")}
    for tag in sorted({*tags, f"manylinux2014_{builder.architecture}"}):
        command += ["--platform", tag]
    run([*command, wheel, *built, *sorted(others)])
    script = (site / "bin/midge-server").read_text().partition("\n")[2]
    program = own / "bin/midge-server"
    program.write_text(f"#!/{emulator} /trial/bin/python\n{script}")
    program.chmod(0o755)
    shutil.copy(ROOT / "tests/packaging/installed.py", own)
    started = ["chroot", root, f"/{emulator}", "/trial/bin/python", "/trial/installed.py"]
    return run([*started, "compiled"])


def main(folder: Path, architecture: str, root: Path) -> None:
    """Build and try a wheel for `architecture`, and print its figures."""
    builder = CrossBuilder(folder, architecture, root)
    run([sys.executable, "-m", "build", "--sdist", "--outdir", folder / "source", ROOT])
    source = next((folder / "source").glob("midge-*.tar.gz"))
    wheel = builder.wheel(source)
    faults = wheels.faults(wheel, wheels.package_files(source))
    assert not faults, "\n".join(faults)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    if builder.target.qemu:
        print(attempt(builder, wheel), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("architecture", choices=TARGETS)
    parser.add_argument("root", type=Path)
    given = parser.parse_args()
    main(given.folder.resolve(), given.architecture, given.root.resolve())
