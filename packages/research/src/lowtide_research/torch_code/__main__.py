"""Write a plan of a training step as a PyTorch module: ``python -m lowtide_research.torch_code MODEL PLAN -o FILE``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import lowtide
from lowtide.api.models import load
from lowtide.errors import LowtideError
from lowtide.plan import read_plan
from lowtide_research.torch_code.source import module_source


def main(arguments: list[str] | None = None) -> int:
    """Check the plan, and write the module."""
    parser = argparse.ArgumentParser(prog="python -m lowtide_research.torch_code", description=__doc__)
    parser.add_argument("model", help="graph JSON with labels, or zoo:magis_*")
    parser.add_argument("plan", nargs="?", help="a plan of it (default: each op once, in the file order)")
    parser.add_argument("-o", dest="out", required=True, type=Path, help="the module's file")
    given = parser.parse_args(arguments)
    try:
        graph = load(given.model)
        plan = None if given.plan is None else read_plan(given.plan)
        if plan is not None:
            lowtide.verify(graph, plan)
        given.out.write_text(module_source(graph, plan), encoding="utf-8")
    except LowtideError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
