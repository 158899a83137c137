"""Runs one bench, prints its table, and as the last line its whole result as JSON."""

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from bench._machine import machine


def main(words: list[str]) -> int:
    """Run the bench that ``words`` name; 1 when it misses a goal.

    A bench is a module of this folder with ``add_arguments(parser)`` and ``run(args) -> dict``. Of what
    it returns, ``table`` (a list of flat dicts) is printed as one, ``goals`` (whether each was met) as
    lines.
    """
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    benches = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, module in _benches().items():
        about = (module.__doc__ or "").partition("\n")[0].rstrip(".")
        module.add_arguments(benches.add_parser(name, help=about, description=module.__doc__))
    args = parser.parse_args(words)
    result = _benches()[args.name].run(args)
    goals: dict[str, bool] = result.get("goals", {})
    _print_table(result.get("table", []))
    for goal, met in goals.items():
        print(f"{'met' if met else 'MISSED'}: {goal}")
    print(json.dumps({"bench": args.name, "machine": machine(), **result}, allow_nan=False))
    return 0 if all(goals.values()) else 1


def _benches() -> dict[str, ModuleType]:
    """The modules of this folder that are one, by name."""
    names = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_")]
    modules = {name: importlib.import_module(f"bench.{name}") for name in names}
    return {name: m for name, m in modules.items() if hasattr(m, "run") and hasattr(m, "add_arguments")}


def _print_table(rows: list[dict[str, object]]) -> None:
    from piper_collect.report.tables import print_table

    columns = list(dict.fromkeys(key for row in rows for key in row))
    print_table("", columns, [[row.get(key) for key in columns] for row in rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
