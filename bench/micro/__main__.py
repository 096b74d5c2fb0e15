"""Run the micro benchmarks on the compiled and on the interpreted midge; write MICRO.md.

python -m bench.micro
"""

import json
import subprocess
import sys
from pathlib import Path

from bench import report
from bench.micro.build import ROOT, is_compiled
from bench.pure import copied_tree

PAGE = ROOT / "bench" / "MICRO.md"
DICTIONARY_FACTOR_MIN = 5


def main() -> int:
    """Measure both builds and write the page."""
    if not is_compiled():
        print("midge is not compiled here: run `make build` first", file=sys.stderr)
        return 1
    compiled = _measured(ROOT)
    page = _page(compiled, _measured(copied_tree()))
    PAGE.write_text(page)
    print(page)
    return 0


def _measured(tree: Path) -> dict[str, dict[str, float]]:
    """Run the benchmarks of a tree; return nanoseconds per operation, and limits, by name."""
    document = ROOT / "build" / "micro" / "results.json"
    document.parent.mkdir(parents=True, exist_ok=True)
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
  compiled where midge is; [micro/test_core.py](micro/test_core.py) describes each name

Nanoseconds per operation. Other programs on the machine can only add to them, so limits are
compared with the best round.

| operation | compiled, best | median | limit | interpreted, best | factor |
|---|---|---|---|---|---|
{rows}

{_saving(compiled)}
"""


def _saving(compiled: dict[str, dict[str, float]]) -> str:
    """Return the saving by the exact-match dictionary, and whether it meets its target."""
    found = compiled["match_literal_with_no_wildcard_present"]["best_ns"]
    walked = compiled["match_literal_uncached_from_the_trie"]["best_ns"]
    factor = walked / found
    kept = "kept" if factor >= DICTIONARY_FACTOR_MIN else "**missed**"
    return f"""While no wildcard is subscribed to, a literal subject that no cache holds is found in
the exact-match dictionary {factor:.1f} times as fast as by walking the trie, with the dictionary
switched off (at least {DICTIONARY_FACTOR_MIN}: {kept})."""


def _verdict(ns: dict[str, float]) -> str:
    if not ns["limit_ns"]:
        return ""
    kept = "kept" if ns["best_ns"] <= ns["limit_ns"] else "**exceeded**"
    return f"{ns['limit_ns']:,.0f} {kept}"


if __name__ == "__main__":
    sys.exit(main())
