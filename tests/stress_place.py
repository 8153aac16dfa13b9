"""The exact placement against brute force, on as many small problems as asked for.

    python tests/stress_place.py 20000 --seed 7

Each problem is asked about the least height and the heights around it, with rules left out at random: a yes comes with
a placement that holds, a no is true. Larger ones, full at every step, are answered alike whatever is left out, and what
is remembered of failures never changes which placement is found first.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

if __name__ == "__main__" and "--core" in sys.argv:  # another build of the core, before anything imports ours
    _spec = importlib.util.spec_from_file_location("lowtide._core", sys.argv[sys.argv.index("--core") + 1])
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["lowtide._core"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["lowtide._core"])

from lowtide import _core
from lowtide.allocate.buffers import Problem, height_of, load_bound
from lowtide.allocate.exact import KEYS, RULES
from support.small_problems import ask, check, full_memory, least_height, linked, small_problem

FEW = ("dominance", "support", "twins", "split")
"""Without these the same states come back often."""

LEFT_OUT = ((), ("memo",), FEW, (*FEW, "memo"), ("stacks", "twins"))


def flaws(seed: int, index: int) -> list[str]:
    """What is wrong with the answers on one problem."""
    rng = Random(f"{seed} {index}")
    if index % 10 == 9:
        problem = full_memory(rng, rng.randint(5, 9), 16, 8)
        answers = [_answer(problem, 16, frozenset(out), rng) for out in LEFT_OUT]
        found = [str(answers)] if len(set(answers)) > 1 else []
        return [f"seed {seed} problem {index}: {line}" for line in (*found, *_misled(rng))]
    problem = small_problem(rng.randrange(2**32))
    least = least_height(problem)
    found = [] if load_bound(problem) <= least else [f"load bound {load_bound(problem)}"]
    for _ in range(3):
        out = frozenset(rule for rule in RULES if rng.random() < 0.3)
        for capacity in {least, least - 1} - {-1}:
            answer = _answer(problem, capacity, out, rng, rng.random() < 0.3)
            if answer not in ("unknown", "fits" if capacity >= least else "never"):
                found.append(f"least {least}, at {capacity} without {sorted(out)}: {answer}")
    return [f"seed {seed} problem {index}: {line}" for line in found]


def _misled(rng: Random) -> list[str]:
    """Where the memo cuts off more than what fails: the first placement found is another one, or none is found."""
    found = []
    for k in range(7):
        problem, size, key = full_memory(rng, rng.randint(3, 6), 10, 5), 10, rng.choice(KEYS)
        out = frozenset(rule for rule in RULES if rng.random() < 0.5)
        if k == 6:
            problem, size, key, out = linked(rng), 18, "size", frozenset[str]()
        capacity, near, switches = size + rng.randrange(3 if k < 6 else 1), rng.randrange(9), dict.fromkeys(out, False)
        first, again = (ask(problem, capacity, switches | {"memo": memo}, key, near) for memo in (True, False))
        if first != again:
            found.append(f"at {capacity} without {sorted(out)}: {first} with the memo, {again} without")
    return found


def _answer(problem: Problem, capacity: int, out: frozenset[str], rng: Random, leaps: bool = False) -> str:
    answer, offsets = ask(problem, capacity, dict.fromkeys(out, False), rng.choice(KEYS), rng.randrange(9), leaps)
    if answer is None:
        return "unknown"
    if not answer:
        return "never"
    try:
        check(problem, offsets)
    except AssertionError as error:
        return str(error) or "a placement that does not hold"
    return "fits" if height_of(problem, offsets) <= capacity else "a placement that is too high"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", action="store_true", help="stop at the first flaw")
    parser.add_argument("--core", type=Path, help="test this build of the core")
    given = parser.parse_args(arguments)
    assert given.core is None or Path(str(_core.__file__)) == given.core
    began, bad = time.perf_counter(), 0
    for index in range(given.problems):
        for line in flaws(given.seed, index):
            print(line, flush=True)
            bad += 1
        if bad and given.stop:
            break
    print(f"{given.problems} problems, {bad} flaws, {time.perf_counter() - began:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
