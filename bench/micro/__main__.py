"""Run the micro benchmarks on the compiled and on the interpreted midge; write MICRO.md.

python -m bench.micro
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench import report
from bench.micro.build import ROOT, is_compiled

PURE_TREE = ROOT / "build" / "micro" / "pure"
PAGE = ROOT / "bench" / "MICRO.md"
_NOT_PURE = shutil.ignore_patterns("*.so", "*.c", "__pycache__")


def main() -> int:
    """Measure both builds and write the page."""
    if not is_compiled():
        print("midge is not compiled here: run `make build` first", file=sys.stderr)
        return 1
    compiled = _measured(ROOT)
    _copy_pure_tree()
    page = _page(compiled, _measured(PURE_TREE))
    PAGE.write_text(page)
    print(page)
    return 0


def _copy_pure_tree() -> None:
    """Copy midge and the benchmarks without extension modules."""
    shutil.rmtree(PURE_TREE, ignore_errors=True)
    for folder in ("midge", "bench"):
        shutil.copytree(ROOT / folder, PURE_TREE / folder, ignore=_NOT_PURE)
    shutil.copy(ROOT / "pyproject.toml", PURE_TREE)


def _measured(tree: Path) -> dict[str, dict[str, float]]:
    """Run the benchmarks of a tree; return nanoseconds per operation, and limits, by name."""
    document = ROOT / "build" / "micro" / "results.json"
    argv = [sys.executable, "-m", "pytest", "-q", "bench/micro", "--timeout=0"]
    subprocess.run([*argv, f"--benchmark-json={document}"], cwd=tree, check=True)
    return {
        one["name"].removeprefix("test_"): {
            "best_ns": one["stats"]["min"] / one["extra_info"]["operations"] * 1e9,
            "median_ns": one["stats"]["median"] / one["extra_info"]["operations"] * 1e9,
            "limit_ns": one["extra_info"]["limit_ns"] or 0.0,
        }
        for one in json.loads(document.read_text())["benchmarks"]
    }


def _page(compiled: dict[str, dict[str, float]], pure: dict[str, dict[str, float]]) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in report.machine().items())
    rows = "\n".join(
        f"| {name} | {ns['best_ns']:,.0f} | {ns['median_ns']:,.0f} | {_verdict(ns)} "
        f"| {pure[name]['best_ns']:,.0f} | {pure[name]['best_ns'] / ns['best_ns']:.0f} |"
        for name, ns in compiled.items()
    )
    return f"""# The core in process

{facts}
- method: `python -m bench.micro`; 15 rounds of some thousand operations each, in loops that are
  compiled where midge is; what each name stands for is in [micro/test_core.py](micro/test_core.py)

Nanoseconds per operation. Whatever else runs on the machine only ever adds to them, so limits are
compared with the best round.

| operation | compiled, best | median | limit | interpreted, best | factor |
|---|---|---|---|---|---|
{rows}
"""


def _verdict(ns: dict[str, float]) -> str:
    if not ns["limit_ns"]:
        return ""
    kept = "kept" if ns["best_ns"] <= ns["limit_ns"] else "**exceeded**"
    return f"{ns['limit_ns']:,.0f} {kept}"


if __name__ == "__main__":
    sys.exit(main())
