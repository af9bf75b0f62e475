"""`python -m benches [NAME...] [--json]`: every module here that has `rows()`, or those whose name begins with a NAME.

A row is a dictionary: metric, value_us, limit (in words), limit_us, ratio. With `--json` the rows are printed as one
JSON list, else as a table; either way the exit status is 1 when a value is above its limit.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator

import benches

Row = dict[str, object]


def named(wanted: list[str]) -> Iterator[str]:
    """The modules with rows, those of `wanted` or all."""
    for module in pkgutil.iter_modules(benches.__path__):
        if module.name != "__main__" and (not wanted or any(module.name.startswith(name) for name in wanted)):
            yield module.name


def is_over(row: Row) -> bool:
    """Whether the value is above its limit."""
    value, limit = row["value_us"], row["limit_us"]
    return isinstance(value, int | float) and isinstance(limit, int | float) and value > limit


def line(row: Row) -> str:
    """One line of the table. What is no time says its unit in the row."""
    unit = str(row.get("unit", "us"))
    mark = "over " if is_over(row) else "     "
    figures = f"{row['value_us']:>12} {unit:<5} limit {row['limit_us']:>12} ({row['limit']}) ratio {row['ratio']}"
    return f"{mark}{row['metric']!s:<58} {figures}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Libraries that were installed have their bytecode; ours gets it at the first start, unless this forbids it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: list[Row] = []
    for name in named(arguments.names):
        module = importlib.import_module(f"benches.{name}")
        for row in module.rows() if hasattr(module, "rows") else ():
            found.append(row)
            if not arguments.json:
                print(line(row), flush=True)
    if not found:
        print(f"nothing to measure in {arguments.names}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(found, indent=1))
    return int(any(is_over(row) for row in found))


if __name__ == "__main__":
    sys.exit(main())
