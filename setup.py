"""Compile midge's hot modules; everything else about the distribution is in pyproject.toml.

A module is compiled when a `.pxd` of the same name lies beside its `.py`. Environment variables
change the build:

- `MIDGE_PURE=1` builds no extension at all. It is the only way to a pure install: a compile that
  fails, fails the build.
- `MIDGE_BOUNDSCHECK=1` turns on every run-time check that Cython has, and checks the numbers that
  the store keeps in bytearrays, for fuzzing.
- `MIDGE_REPOSITORY`, a URL, becomes the distribution's links; a release sets it to where it runs.
- `MIDGE_SANITIZE=address` instruments the C code (any name that `-fsanitize=` takes).

A level of optimization in `CFLAGS` takes the place of those that the modules have here.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import shutil
import signal
import sys
import sysconfig
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPILED_FOLDERS = ("protocol", "sublist", "jetstream", "server")

# A `.pxd` that has only `cdef inline` functions is compiled into the modules that cimport it. The
# `.py` beside it is its interpreted twin, and is not compiled.
INLINE_ONLY = frozenset(
    {
        "midge.jetstream.archive.crc32c",
        "midge.jetstream.store.file.native",
        "midge.jetstream.store.layout",
        "midge.jetstream.store.numbers",
        "midge.protocol.digits",
        "midge.protocol.lines",
        "midge.protocol.memory",
        "midge.server.clock",
        "midge.server.routing.plain_socket",
        "midge.server.routing.reserved",
        "midge.server.routing.trace_headers",
        "midge.sublist.octets",
        "midge.sublist.subject_table",
        "midge.sublist.thread_lock",
    }
)

LEVELS = {
    "-O3": {
        "midge.jetstream.store.file.records",
        "midge.server.clients.publishing",
        "midge.server.routing.outbound",
        "midge.server.routing.router",
        "midge.server.routing.runs",
        "midge.sublist.subjects",
    },
    "-O2": {
        "midge.jetstream.archive.nats_store.highway",
        "midge.jetstream.archive.s2",
        "midge.jetstream.headers",
        "midge.jetstream.json.flat",
        "midge.jetstream.json.object_writer",
        "midge.jetstream.store.block",
        "midge.jetstream.store.entering",
        "midge.jetstream.store.file.commit_thread",
        "midge.jetstream.store.file.log",
        "midge.jetstream.store.file.record_writer",
        "midge.jetstream.store.indexes",
        "midge.jetstream.store.message_index",
        "midge.jetstream.store.published",
        "midge.jetstream.store.store",
        "midge.jetstream.store.subject_index",
        "midge.jetstream.stream.direct_get",
        "midge.protocol.link",
        "midge.server.jetstream.receiver",
        "midge.server.peers.outbound",
        "midge.server.recorder.message_rows",
        "midge.server.recorder.tap",
        "midge.server.routing.flush_scheduler",
        "midge.server.routing.receivers",
        "midge.sublist.prefix_results",
        "midge.sublist.trie",
    },
    "-O1": {
        "midge.jetstream.api.call",
        "midge.jetstream.api.consumers",
        "midge.jetstream.api.dispatch",
        "midge.jetstream.archive.framing",
        "midge.jetstream.archive.packing",
        "midge.jetstream.config.consumer",
        "midge.jetstream.config.consumer_config",
        "midge.jetstream.config.consumer_rules",
        "midge.jetstream.config.names",
        "midge.jetstream.consumer.ack_subject",
        "midge.jetstream.consumer.ack_tracker",
        "midge.jetstream.consumer.consumer",
        "midge.jetstream.consumer.consumer_set",
        "midge.jetstream.consumer.deliverer",
        "midge.jetstream.consumer.consumer_log",
        "midge.jetstream.consumer.pending",
        "midge.jetstream.consumer.position",
        "midge.jetstream.consumer.pull",
        "midge.jetstream.consumer.push",
        "midge.jetstream.consumer.requests",
        "midge.jetstream.environment.sink",
        "midge.jetstream.store.file.compaction",
        "midge.jetstream.store.file.group",
        "midge.jetstream.store.file.record_reader",
        "midge.jetstream.store.file.recovery",
        "midge.jetstream.store.file.replayed",
        "midge.jetstream.store.file.file_store",
        "midge.jetstream.store.filters",
        "midge.jetstream.store.lookups",
        "midge.jetstream.store.memory_store",
        "midge.jetstream.store.removing",
        "midge.jetstream.stream.answers",
        "midge.jetstream.stream.contents",
        "midge.jetstream.stream.stream",
        "midge.protocol.frame",
        "midge.protocol.inbound",
        "midge.protocol.parser",
        "midge.server.auth.permissions",
        "midge.server.channels.busy_poll",
        "midge.server.channels.channel",
        "midge.server.channels.plain_transport",
        "midge.server.channels.reading",
        "midge.server.channels.ready_sockets",
        "midge.server.clients.deliver_denials",
        "midge.server.embedded.inbox",
        "midge.server.embedded.publisher",
        "midge.server.internal.service",
        "midge.server.jetstream.ack_intake",
        "midge.server.jetstream.audit",
        "midge.server.jetstream.delivery",
        "midge.server.jetstream.ingest",
        "midge.server.jetstream.message_requests",
        "midge.server.jetstream.real_ticks",
        "midge.server.jetstream.account_sink",
        "midge.server.jetstream.api_subjects",
        "midge.server.peers.link",
        "midge.server.peers.link_commands",
        "midge.server.peers.route",
        "midge.server.peers.worker",
        "midge.server.routing.subscription",
        "midge.sublist.recent",
        "midge.sublist.sharded_dict",
        "midge.sublist.sublist",
    },
}
"""How far gcc optimizes a module; one that is not listed gets `-Og`, in a third of `-O3`'s time.

docs/building.md has the part of a message that each module executes, and what the levels cost.
"""

GARBAGE_THRESHOLD = 1_000_000
"""New objects that start a collection while Cython translates: with 700, half of the time goes to
collections that find nothing; without any, 20 modules leave 130 MB."""

HEADERS = ("*.pxd", "*.h")
"""What several modules share: a change in one of them concerns all."""

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    "auto_pickle": False,
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "emit_code_comments": False,
}
CHECKS = {"boundscheck": True, "wraparound": True, "nonecheck": True, "overflowcheck": True}

CIMPORT = re.compile(r"^\s*from\s+([\w.]+)\s+cimport\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)

LAST_VARIANT = Path("build", "variant")


def compiled_modules(root: Path = Path()) -> dict[str, Path]:
    """Map the name of every module to compile to its source, relative to the checkout `root`."""
    found = {}
    for folder in COMPILED_FOLDERS:
        for pxd in sorted((root / "midge" / folder).rglob("*.pxd")):
            source = pxd.with_suffix(".py").relative_to(root)
            name = ".".join(source.with_suffix("").parts)
            if source.stem != "__init__" and (root / source).exists() and name not in INLINE_ONLY:
                found[name] = source
    return found


def optimization(module: str) -> str:
    """Return the level at which gcc optimizes a module."""
    return next((level for level, modules in LEVELS.items() if module in modules), "-Og")


def is_set(switch: str) -> bool:
    """Return whether the environment variable `switch` is set, and is neither empty nor 0."""
    return os.environ.get(switch, "") not in {"", "0"}


def variant() -> str:
    """Name the kind of build that the environment asks for."""
    checks = "checked" if is_set("MIDGE_BOUNDSCHECK") else "release"
    sanitizer = os.environ.get("MIDGE_SANITIZE", "")
    return f"{checks}-{sanitizer}" if sanitizer else checks


def headers_by_module() -> dict[str, Path]:
    """Map the name of every module that has a `.pxd` to it."""
    return {
        ".".join(pxd.with_suffix("").parts): pxd
        for folder in COMPILED_FOLDERS
        for pxd in Path("midge", folder).rglob("*.pxd")
    }


def headers_of(module: str, headers: dict[str, Path]) -> set[Path]:
    """Return the headers of a module and of all that it cimports, however indirectly.

    A C header belongs to every `.pxd` of its folder.
    """
    found: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name in headers and name not in found:
            found.add(name)
            for package, names in CIMPORT.findall(headers[name].read_text()):
                # `from midge.protocol cimport frame` means a module, and so may any name.
                inner = re.split(r"[\s,()\\]+", names)
                ahead += [package, *(f"{package}.{one}" for one in inner if one)]
    inlined = {headers[name] for name in found}
    return inlined | {header for pxd in inlined for header in pxd.parent.glob("*.h")}


def is_outdated(built: Path, module: str, headers: dict[str, Path]) -> bool:
    """Return whether `built` is missing, or older than what `module` is made of.

    Cython follows `from midge.protocol cimport frame` to the package and not to `frame.pxd`, so it
    would miss a change there.
    """
    if not built.exists():
        return True
    source = Path(*module.split(".")).with_suffix(".py")
    here = Path(__file__)  # which has the levels and patches what Cython does
    made = built.stat().st_mtime
    return any(path.stat().st_mtime > made for path in (source, here, *headers_of(module, headers)))


def missing_compiler() -> str:
    """Return one line on what a build lacks and what to do about it, "" when it lacks nothing.

    Only the user decides to do without: a server that is several times slower must not come of a
    compiler that was not found.
    """
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(compiler):
        lacking = f"the C compiler {compiler!r}"
    elif not header.exists():
        lacking = f"Python's headers ({header})"
    else:
        return ""
    return (
        f"midge: cannot compile without {lacking}: install it (Debian: apt install gcc "
        "python3-dev; Fedora: dnf install gcc python3-devel), or set MIDGE_PURE=1 for an "
        "interpreted midge, several times slower"
    )


def extensions() -> list[Extension]:
    """List what to compile, still as Python sources."""
    if is_set("MIDGE_PURE"):
        return []
    is_given = "-O" in os.environ.get("CFLAGS", "")
    # gcc's warnings take 10 % of its time, and concern Cython's C code: comparisons of its own
    # temporaries (`max(seq, 1)`), and of limits whose sign is tested just before.
    compile_args, link_args = ["-g0", "-Wno-all", "-Wno-sign-compare"], []
    if sanitizer := os.environ.get("MIDGE_SANITIZE", ""):
        is_given = True
        link_args = [f"-fsanitize={sanitizer}"]
        compile_args = ["-O1", "-g", "-Wno-sign-compare", "-fno-omit-frame-pointer", *link_args]
    return [
        Extension(
            name,
            [str(source)],
            include_dirs=["."],
            define_macros=[("MIDGE_CHECKED", "1")] if is_set("MIDGE_BOUNDSCHECK") else [],
            extra_compile_args=[
                *([] if is_given else [optimization(name)]),
                *compile_args,
                "-pthread",
            ],
            extra_link_args=[*link_args, "-pthread"],
        )
        for name, source in compiled_modules().items()
    ]


def heed_no_gc() -> None:
    """Make Cython heed `@cython.no_gc` on a class in a `.pxd`.

    Cython 3.3.1 analyses such a class twice, for the `.pxd` and for the `.py`. The second analysis
    replaces the directives of the first, including `no_gc`, with the module's directives.
    `tests/unit/test_compiled.py` reads the flags of every class that is marked.
    """
    from Cython.Compiler import Nodes  # noqa: PLC0415 - a pure build does without Cython

    analyse = Nodes.CClassDefNode.analyse_declarations

    def analyse_and_keep(node: Any, env: Any) -> None:
        known = env.lookup_here(node.class_name)
        scope = known.type.scope if known is not None and known.is_type else None
        is_marked = scope is not None and scope.directives.get("no_gc", False)
        analyse(node, env)
        if is_marked and node.scope is not None:
            node.scope.directives = {**node.scope.directives, "no_gc": True}

    Nodes.CClassDefNode.analyse_declarations = analyse_and_keep


def heed_final() -> None:
    """Make Cython heed `@cython.final` on a method in a `.pxd`: have it called without a pointer.

    Cython 3.3.1 forgets it when it comes to the `.py`, and then calls the method by the table of
    virtual ones, which keeps the C compiler from inlining it: a message in a run takes 9.0 ns so,
    and 8.7 ns otherwise. `tests/unit/test_compiled.py` looks for such calls.
    """
    from Cython.Compiler import Symtab  # noqa: PLC0415 - a pure build does without Cython

    declare = Symtab.CClassScope.declare_cfunction

    def declare_and_keep(scope: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        known = scope.lookup_here(name)
        was_final = known is not None and known.is_final_cmethod and not known.is_inherited
        entry = declare(scope, name, *args, **kwargs)
        if was_final and entry.func_cname:
            entry.is_final_cmethod = True
            entry.final_func_cname = entry.func_cname
        return entry

    Symtab.CClassScope.declare_cfunction = declare_and_keep


def import_what_is_used() -> None:
    """Make Cython import from another module only the C variables that are used.

    Cython 3.3.1 does so with functions, but counts each variable of a `.pxd` as used, and imports
    all of those that a module reaches: 190 for a stream. `tests/unit/test_compiled.py` looks for
    such imports.
    """
    from Cython.Compiler import ModuleNode, Symtab  # noqa: PLC0415 - a pure build does without

    translated = ModuleNode.ModuleNode
    declare = Symtab.ModuleScope.declare_var
    select = translated._select_imported_entries  # noqa: SLF001 - no public name chooses them

    def declare_unused(scope: Any, *args: Any, **kwargs: Any) -> Any:
        entry = declare(scope, *args, **kwargs)
        if entry.defined_in_pxd and not entry.api:
            entry.used = False
        return entry

    def select_used(node: Any, entries: Any, **_: Any) -> Any:
        return select(node, entries, used_only=True)

    Symtab.ModuleScope.declare_var = declare_unused
    translated._select_imported_entries = select_used  # noqa: SLF001 - as above


def cimported_by(scope: Any) -> set[str]:
    """Name the scope of a `.pxd` and all that it cimports, however indirectly."""
    found: set[str] = set()
    ahead = [scope]
    while ahead:
        one = ahead.pop()
        if one.qualified_name not in found:
            found.add(one.qualified_name)
            ahead += getattr(one, "cimported_modules", ())  # which built-in types do not have
    return found


def share_declarations(modules: list[str], options: dict[str, Any]) -> None:
    """Make Cython analyse each `.pxd` that `modules` reach once, and not for each of them.

    That analysis is three quarters of a translation: 48 files for a consumer. Cython 3.3.1 repeats
    it because translating a module leaves traces in what it cimports, so here a child process
    translates and ends. It gets what the module's own cimports would have loaded: the files that
    they reach, with the functions marked that inline functions in them call.
    `tests/unit/test_build.py` compares the result with a plain translation.
    """
    from Cython.Compiler import Main, Options  # noqa: PLC0415 - a pure build does without

    files: dict[str, Any] = {}
    called: dict[str, list[Any]] = {}

    def take_used() -> list[Any]:
        known = [entry for _, scope in files.values() for entry in scope.entries.values()]
        used = [entry for entry in known if entry.used]
        for entry in used:
            entry.used = False
        return used

    class Shared(Main.Context):
        def process_pxd(self, source: Any, scope: Any, name: str) -> Any:
            used_by_importer = take_used()
            error, file = super().process_pxd(source, scope, name)
            if error is None:
                files[scope.qualified_name] = file
                called[scope.qualified_name] = take_used()
            for entry in used_by_importer:
                entry.used = True
            return error, file

    given = Options.CompilationOptions(Options.default_options, **options)
    given.configure_language_defaults("py")
    context = Shared.from_options(given)
    read_declarations(context, modules)
    compile_single = Main.compile_single

    def compile_shared(source: str, options: Any, full_module_name: str, **_: Any) -> Any:
        child = os.fork()
        if child:
            return SimpleNamespace(num_errors=os.waitpid(child, 0)[1])
        status = 1
        try:
            reached = cimported_by(context.find_module(full_module_name, need_pxd=0))
            context.pxds = {name: file for name, file in files.items() if name in reached}
            for name in context.pxds:
                for entry in called[name]:
                    entry.used = True
            context.options = options
            status = compile_single(source, options, full_module_name, context=context).num_errors
        except Exception:  # noqa: BLE001 - it ends this process
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(min(status, 1))

    Main.compile_single = compile_shared


def read_declarations(context: Any, modules: list[str]) -> None:
    """Make Cython read the `.pxd` files of `modules`, and print the errors that it finds.

    Raises:
        CompileError: it found one.
    """
    from Cython.Compiler import Errors  # noqa: PLC0415 - a pure build does without

    Errors.open_listing_file(None)  # and print errors
    for module in modules:
        context.find_module(module, need_pxd=0)
    if Errors.get_errors_count():
        raise CompileError("Cython cannot read the declarations above")


@contextmanager
def translators(jobs: int, modules: list[str]) -> Iterator[Callable[[Extension], Extension]]:
    """Lend a function by which threads translate `modules`: in processes that inherit all this.

    Where processes are not forked, one thread at a time translates.
    """
    from Cython.Build import cythonize  # noqa: PLC0415 - a pure build does without Cython

    heed_no_gc()
    heed_final()
    import_what_is_used()
    gc.set_threshold(GARBAGE_THRESHOLD)
    options = {
        "build_dir": str(Path("build", "cython", variant())),
        "compiler_directives": DIRECTIVES | (CHECKS if is_set("MIDGE_BOUNDSCHECK") else {}),
        "include_path": ["."],
    }
    if sys.platform == "linux":
        share_declarations(modules, options)
        # Ctrl-C is for the parent: a task that it ended in a worker would never come back.
        ignore = (signal.SIGINT, signal.SIG_IGN)
        with multiprocessing.get_context("fork").Pool(jobs, signal.signal, ignore) as pool:
            always = options | {"force": True, "quiet": True}
            yield lambda extension: pool.apply(cythonize, ([extension],), always)[0]
    else:
        alone = threading.Lock()

        def translate(extension: Extension) -> Extension:
            with alone:
                return cythonize([extension], force=True, quiet=True, **options)[0]

        yield translate


class CythonBuild(build_ext):
    """Translate the sources with Cython, then compile them.

    The translation happens here and not when `setup.py` is read, so that asking for metadata or
    making an sdist needs no C compiler and leaves no C file in it.
    """

    is_ending = False

    def run(self) -> None:
        """Rebuild everything when the last build in place was of another variant."""
        if self.extensions and (lacking := missing_compiler()):
            sys.exit(lacking)
        built = LAST_VARIANT.read_text() if LAST_VARIANT.exists() else variant()
        self.force = self.force or built != variant()
        if sys.platform == "linux" and not self.inplace and not os.environ.get("MIDGE_SANITIZE"):
            # Profilers want the names of static functions, an installed package does without.
            for extension in self.extensions:
                extension.extra_link_args = [*extension.extra_link_args, "-Wl,-s"]
        super().run()
        if self.inplace and self.extensions:
            LAST_VARIANT.parent.mkdir(exist_ok=True)
            LAST_VARIANT.write_text(variant())
            for extension in self.extensions:  # a module that needed no work is fresh all the same
                Path(self.get_ext_fullpath(extension.name)).touch()

    def build_extensions(self) -> None:
        """Translate and compile the modules that are out of date, with a line for each."""
        headers = headers_by_module()
        stale = [
            extension
            for extension in self.extensions
            if self.force
            or is_outdated(Path(self.get_ext_fullpath(extension.name)), extension.name, headers)
        ]
        if not stale:
            return
        stale.sort(key=lambda extension: -Path(extension.sources[0]).stat().st_size)
        self.force = (
            True  # compile every listed module; setuptools would compare dates by its own rules
        )
        jobs = self.parallel if isinstance(self.parallel, int) else os.cpu_count() or 1
        names = [extension.name for extension in stale]
        with translators(jobs, names) as translated, ThreadPoolExecutor(jobs) as threads:
            waiting = {threads.submit(self.make, one, translated): one.name for one in stale}
            try:
                for number, made in enumerate(as_completed(waiting), 1):
                    made.result()
                    sys.stderr.write(f"[{number}/{len(stale)}] {waiting[made]}\n")
            except BaseException:
                self.is_ending = True
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def make(self, extension: Extension, translated: Callable[[Extension], Extension]) -> None:
        """Put the generated C file in place of the Python source, and compile it."""
        from Cython.Compiler import Errors  # noqa: PLC0415 - a pure build does without

        try:
            extension.sources = translated(extension).sources
        except Errors.CompileError:
            raise CompileError(f"Cython cannot translate {extension.name}, see above") from None
        if not self.is_ending:
            self.build_extension(extension)


def project_urls() -> dict[str, str]:
    """Return the distribution's links, which lead to the repository that builds the release."""
    place = os.environ.get("MIDGE_REPOSITORY", "").rstrip("/")
    pages = {
        "Source": "",
        "Documentation": "/tree/main/docs",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
        "Security": "/security/policy",
    }
    return {name: place + path for name, path in pages.items()} if place else {}


if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": CythonBuild},
        project_urls=project_urls(),
    )
