"""Groups of options that several commands of research take: what is kept, where it is, and what moves."""

from __future__ import annotations

from typing import Any

from lowtide.cli.values import move_cost, tensor_offset, tensor_place


def kept(p: Any) -> None:
    """Tensors that keep their memory."""
    p.add_argument(
        "--persistent", action="append", default=[], metavar="TENSOR",
        help="keeps memory of its own from before the first step to after the last",
    )  # fmt: skip
    p.add_argument(
        "--double-buffer", dest="double_buffered", action="append", default=[], metavar="TENSOR",
        help="the same, with room for two: one to work on, one to fill or to empty",
    )  # fmt: skip


def fixed(p: Any) -> None:
    """Tensors at given offsets."""
    p.add_argument(
        "--fix", dest="fixed", action="append", default=[], metavar="TENSOR=OFFSET", type=tensor_offset,
        help="place a tensor there: bytes from the start of the arena, also 0x...",
    )  # fmt: skip


def budget(p: Any, *, share: bool = False) -> None:
    """Bytes that there are, and those that stay free; `share`: also in percent of the file order's peak."""
    part = "; 70%% is a part of the peak in file order" if share else ""
    p.add_argument("--budget", metavar="SIZE", help=f"what arena and reserve may take{part}")
    p.add_argument("--reserve", metavar="SIZE", help="bytes to keep free of the budget")


def banks(p: Any) -> None:
    """Several memories, each tensor wholly in one."""
    p.add_argument(
        "--bank", dest="banks", action="append", default=[], metavar="NAME=SIZE",
        help="one memory (repeat, fastest first); each tensor is put in exactly one, as few bytes as possible in the "
        "slow ones",
    )  # fmt: skip
    p.add_argument("--board", metavar="NAME", help="the memories of a board (`lowtide research board`), or of a file")
    p.add_argument(
        "--place", dest="places", action="append", default=[], metavar="TENSOR=NAME,...", type=tensor_place,
        help="the memories that a tensor may lie in, the preferred one first",
    )  # fmt: skip


def spilling(p: Any) -> None:
    """A fast memory that is too small, and those behind it."""
    p.add_argument(
        "--memory", dest="memories", action="append", default=[], metavar="NAME=SIZE",
        help="a memory for a plan with spilling, fastest first; an unbounded host stands behind the last",
    )  # fmt: skip
    p.add_argument(
        "--moves", action="append", default=[], metavar="NAME=VALUE", type=move_cost,
        help="what a move costs: write_once, inputs_have_copy, outputs_written_early, outputs_end_fast, parameters, "
        "rematerialise (true or false), lead (steps), bandwidth (bytes a second), flops (a second)",
    )  # fmt: skip
