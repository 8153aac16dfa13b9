"""Commands with few options: lists, schemas, pictures, completion. Each function adds one to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from lowtide.cli import commands, completion, report, schema, sweep
from lowtide.cli.values import seed

Add = Callable[..., Any]  # adds a command: its name, what it does, the function that runs it, and examples


def completion_parser(add: Add, parser_of_all: Callable[[], argparse.ArgumentParser]) -> None:
    """What shells complete."""
    p = add(
        "completion", "print what a shell completes: commands, options, names of targets and networks", completion.run,
        'eval "$(lowtide research completion bash)"',
        "lowtide research completion fish > ~/.config/fish/completions/lowtide.fish",
    )  # fmt: skip
    completion.arguments(p)
    p.set_defaults(all_commands=parser_of_all)


def schema_parser(add: Add) -> None:
    """What files hold."""
    p = add(
        "schema", "print the JSON Schema of a graph JSON, of a plan, of a cost file or of lowtide.toml", schema.run,
        "lowtide research schema graph > graph.schema.json",
        "lowtide research schema plan",
    )  # fmt: skip
    p.add_argument("kind", choices=("graph", "plan", "cost", "budgets"), help="which of the files")


def report_parser(add: Add) -> None:
    """Pictures."""
    p = add(
        "report", "draw a plan, or two: on the screen, as HTML, SVG, PNG or a trace", report.run,
        "lowtide report model.plan.json",
        "lowtide report model.plan.json -o report.html",
        "lowtide report before.plan.json after.plan.json -o report.html",
        "lowtide report model.plan.json --trace trace.json --svg figure",
        "lowtide report model.plan.json --overlay bytes.json",
    )  # fmt: skip
    report.arguments(p)


def _list_parser(add: Add, name: str, does: str, run: Any, *examples: str) -> None:
    """What there is of something, or one of it as TOML."""
    p = add(name, f"list {does} as TOML", run, f"lowtide research {name}", *examples)
    p.add_argument(name, nargs="?", metavar="NAME", help=f"a built-in {name}, or a TOML file")


def target_parser(add: Add) -> None:
    """Targets."""
    does = "the targets, or print one with the table of op kinds"
    _list_parser(add, "target", does, commands.target, "lowtide research target generic > mine.toml")


def board_parser(add: Add) -> None:
    """Boards."""
    does = "the boards and their memories, or print one"
    _list_parser(add, "board", does, commands.board, "lowtide research board stm32h743 > mine.toml")


def zoo_parser(add: Add) -> None:
    """Built-in networks."""
    p = add(
        "zoo", "list the built-in networks, or write one as a file", commands.zoo,
        "lowtide research zoo",
        "lowtide research zoo nasnet_a_cifar -o nasnet.onnx --seed 1",
        "lowtide research zoo transformer:layers=12,width=512 -o transformer.graph.json",
    )  # fmt: skip
    p.add_argument("network", nargs="?", metavar="NAME", help="a network, with parameters as in transformer:layers=12")
    p.add_argument("-o", dest="out", metavar="FILE", help="write it, as .onnx or as .graph.json")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the random weights (default: 0)")


def sweep_parser(add: Add) -> None:
    """Tables of many models."""
    p = add(
        "sweep", "plan many models under many targets, budgets and options: one table, which can be gone on with",
        sweep.run,
        "lowtide research sweep candidates/ --targets tflm,pointer=32 --budgets 64K,128K -o table.csv",
        "lowtide research sweep a.onnx b.onnx --vary allow=,fission --vary time=5,60 -o table.parquet --jobs 8",
        "lowtide research sweep candidates/ -o table.csv --scheduler tcp://head:8786",
    )  # fmt: skip
    sweep.arguments(p)
