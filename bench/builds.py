"""Other checkouts of midge: how to start their servers and run programs on their modules."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import servers


class NoBuildError(Exception):
    """A folder is not a checkout of midge, or not compiled."""


@dataclass(frozen=True)
class Build:
    """A checkout whose extension modules are built in place."""

    name: str
    folder: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "Build":
        """Return the build of a checkout.

        Raises:
            NoBuildError: it is not a checkout, or not compiled.
        """
        if not (folder / "midge" / "__init__.py").exists():
            raise NoBuildError(f"{folder}: expected a checkout of midge")
        if not list((folder / "protocol").glob("parser.*.so")):
            raise NoBuildError(f"{folder}: not compiled, run `make build` there")
        return cls(name, folder.resolve())

    @property
    def python(self) -> str:
        """Return the Python to run it with: the checkout's own, or else this one."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which `import midge` finds this build."""
        return os.environ | {"PYTHONPATH": str(self.folder)}

    def server(self) -> servers.Command:
        """Return the command that starts its server."""
        # -P: the folder in which the bench runs also holds a midge.
        argv = ("env", f"PYTHONPATH={self.folder}", self.python, "-P", "-m", "midge.server")
        return servers.Command(self.name, argv)
