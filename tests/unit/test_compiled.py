"""The compiled build is compiled, and the pure build is not.

Cython silently ignores a `.pxd` that it does not find and then compiles plain Python classes, which
work and are slow. So every `cdef class` is looked up and must be an extension type.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
from collections import Counter
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.conftest import stale_extensions

CDEF_CLASS = re.compile(r"^cdef class (\w+)[^\n]*\n((?:[ \t]+[^\n]*\n|\n)*)", re.MULTILINE)
NO_GC_CLASS = re.compile(r"^@cython\.no_gc\n(?:@[^\n]*\n)*cdef class (\w+)", re.MULTILINE)
C_METHOD = re.compile(r"^\s+cp?def [^\n=]*\(", re.MULTILINE)
FINAL_METHOD = re.compile(
    r"^    @cython\.final\n(?:    @[^\n]*\n(?:     +[^\n]*\n)*)*    cdef [^\n(]*?(\w+)\(",
    re.MULTILINE,
)
TYPED_MEMORYVIEW = re.compile(r"^\s*cdef [^\n(]*\[:", re.MULTILINE)
FOREIGN_VARIABLE = re.compile(r"^#define (__pyx_v_\w+) \(\*(__pyx_vp_\w+)\)", re.MULTILINE)
INLINE_FUNCTION = re.compile(
    r"^static CYTHON_INLINE (?!PyObject)[\w ]+?(__pyx_f_\w+)\([^;{]*\) \{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
HAVE_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC: the collector walks over instances
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set on every class made by a class statement


def modules_to_compile(root: Path) -> dict[str, Path]:
    """Ask setup.py what it compiles."""
    return runpy.run_path(str(root / "setup.py"))["compiled_modules"](root)


@pytest.fixture(scope="module")
def modules(root: Path) -> dict[str, Path]:
    return modules_to_compile(root)


def test_there_is_something_to_compile(modules: dict[str, Path]) -> None:
    assert modules


def test_every_module_comes_from_the_build_under_test(
    modules: dict[str, Path], root: Path, is_pure_build: bool
) -> None:
    suffixes = (".py",) if is_pure_build else tuple(EXTENSION_SUFFIXES)
    for name in modules:
        path = importlib.import_module(name).__file__ or ""
        assert path.startswith(str(root)), f"{name} is not the one of this checkout"
        assert path.endswith(suffixes), f"{path}: run `make build`, or set MIDGE_PURE=1"


def test_cdef_classes_are_extension_types(
    modules: dict[str, Path], root: Path, is_pure_build: bool
) -> None:
    for name, source in modules.items():
        header = (root / source).with_suffix(".pxd").read_text()
        for class_name, body in CDEF_CLASS.findall(header):
            cls = getattr(importlib.import_module(name), class_name)
            assert bool(cls.__flags__ & HEAP_TYPE) is is_pure_build, f"{name}.{class_name}"
            if C_METHOD.search(body):
                assert ("__pyx_vtable__" in vars(cls)) is not is_pure_build, f"{name}.{class_name}"


def test_the_collector_passes_over_what_is_marked_so(
    modules: dict[str, Path], root: Path, is_pure_build: bool
) -> None:
    marked = [
        getattr(importlib.import_module(name), class_name)
        for name, source in modules.items()
        for class_name in NO_GC_CLASS.findall((root / source).with_suffix(".pxd").read_text())
    ]
    assert marked
    collected = [cls.__name__ for cls in marked if cls.__flags__ & HAVE_GC]
    if not is_pure_build:
        assert collected == []


def calls_by_pointer(generated: str, methods: list[str]) -> list[str]:
    """Return those of `methods` that their own module calls by its table of virtual methods."""
    return [name for name in methods if re.search(rf"->{name}\(", generated)]


def test_final_methods_are_called_directly(modules: dict[str, Path], root: Path) -> None:
    looked_at = []
    for name, source in modules.items():
        methods = FINAL_METHOD.findall((root / source).with_suffix(".pxd").read_text())
        path = root.joinpath("build", "cython", "release", *name.split(".")).with_suffix(".c")
        if methods and path.exists():  # it is not beside an installed midge
            looked_at.append((name, calls_by_pointer(path.read_text(), methods)))
    assert [entry for entry in looked_at if entry[1]] == []


def calculating_with_objects(generated: str) -> list[str]:
    """Name the inline functions of a number that add or mask Python's numbers on the way."""
    functions = INLINE_FUNCTION.findall(generated)
    return [name for name, body in functions if "PyNumber_" in body]


def test_inline_functions_calculate_in_c(modules: dict[str, Path], root: Path) -> None:
    """A constant of more than 32 bits without `ULL` is an object, and so is all done with it."""
    for name in modules:
        path = root.joinpath("build", "cython", "release", *name.split(".")).with_suffix(".c")
        if path.exists():  # it is not beside an installed midge
            assert calculating_with_objects(path.read_text()) == [], name
    head = "static CYTHON_INLINE unsigned PY_LONG_LONG __pyx_f_numbers_u48_at(PyObject *d) {\n"
    assert calculating_with_objects(head + "  r = PyNumber_And(d, i);\n}\n") == [
        "__pyx_f_numbers_u48_at"
    ]
    assert calculating_with_objects(head + "  r = (d & 1ULL);\n}\n") == []


def used_and_imported(generated: str) -> tuple[set[str], set[str]]:
    """Name the C variables of other modules that generated C code uses, and those it imports."""
    words = Counter(re.findall(r"\b__pyx_vp?_\w+", generated))
    foreign = FOREIGN_VARIABLE.findall(generated)
    used = {pointer for variable, pointer in foreign if words[variable] > 1}
    return used, {pointer for _, pointer in foreign if words[pointer] > 2}


def test_variables_are_imported_where_they_are_used(modules: dict[str, Path], root: Path) -> None:
    """A variable that is used and not imported is a null pointer."""
    for name in modules:
        path = root.joinpath("build", "cython", "release", *name.split(".")).with_suffix(".c")
        if path.exists():  # it is not beside an installed midge
            used, imported = used_and_imported(path.read_text())
            assert imported == used, name


def test_a_variable_is_found_where_it_is_used_and_where_it_is_imported() -> None:
    declared = "static int *__pyx_vp_a_B = 0;\n#define __pyx_v_a_B (*__pyx_vp_a_B)\n"
    use, imported = "x = __pyx_v_a_B;\n", "{(void **)&__pyx_vp_a_B, (void **) NULL}"
    assert used_and_imported(declared) == (set(), set())
    assert used_and_imported(declared + use) == ({"__pyx_vp_a_B"}, set())
    assert used_and_imported(declared + imported) == (set(), {"__pyx_vp_a_B"})


def test_a_method_marked_final_is_found_and_so_is_a_call_by_pointer() -> None:
    header = (
        "cdef class A:\n    @cython.final\n    @cython.locals(a=int,\n                   b=int)\n"
        "    cdef Py_ssize_t _one(\n        self) except -1\n\n    cdef int _two(self)\n"
    )
    assert FINAL_METHOD.findall(header) == ["_one"]
    assert calls_by_pointer("((struct x *)self->vtab)->_one(self)", ["_one"]) == ["_one"]
    assert calls_by_pointer("f_A__one(self); vtable._one = f_A__one;", ["_one"]) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one compiled module, built a second after it was written."""
    folder = tmp_path / "midge" / "protocol"
    folder.mkdir(parents=True)
    for name, written in (("m.py", 1.0), ("m.pxd", 1.0), (f"m{EXTENSION_SUFFIXES[0]}", 2.0)):
        (folder / name).touch()
        os.utime(folder / name, (written, written))
    return tmp_path


def test_no_attribute_is_a_typed_memoryview(root: Path) -> None:
    """Each module that cimports such a class would compile 10,000 lines for it: 2 s."""
    folders = runpy.run_path(str(root / "setup.py"))["COMPILED_FOLDERS"]
    headers = [path for folder in folders for path in (root / folder).rglob("*.pxd")]
    assert headers
    assert [str(path) for path in headers if TYPED_MEMORYVIEW.search(path.read_text())] == []
    assert TYPED_MEMORYVIEW.search("    cdef readonly long long[::1] _sizes\n")


def test_fresh_extension_is_accepted(checkout: Path) -> None:
    assert stale_extensions(checkout) == []


@pytest.mark.parametrize("edited", ["m.py", "m.pxd", "other.pxd"])
def test_extension_older_than_its_sources_is_noticed(checkout: Path, edited: str) -> None:
    path = checkout / "midge" / "protocol" / edited
    path.touch()
    os.utime(path, (3.0, 3.0))
    assert len(stale_extensions(checkout)) == 1
    assert "is older than its sources" in stale_extensions(checkout)[0]


def test_extension_without_its_header_is_noticed(checkout: Path) -> None:
    (checkout / "midge" / "protocol" / "m.pxd").unlink()
    assert "has no .pxd any more" in stale_extensions(checkout)[0]
