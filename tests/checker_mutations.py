"""Each rule of the checker, switched off by itself: is there a forged plan that it alone refuses?

    python tests/checker_mutations.py [--seeds N] [--each N] [--seed N]

Every forgery (`support/forgeries`) goes through the checker, which says which rule refuses it. Then that rule is
switched off. If the plan is accepted, or the checker falls over, this forgery catches the broken rule. If another rule
refuses, that one is switched off beside it, and so on: the rules on the way stand in for each other, and the page says
so.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from random import Random

from support.checker_mutants import SWITCHES, UNREACHED, install, without

install()

from lowtide.errors import VerificationError  # noqa: E402
from support.forgeries.bases import KINDS, Base, base  # noqa: E402
from support.forgeries.forge import forgeries  # noqa: E402
from support.forgeries.judge import ACCEPTED, by_search, verdict  # noqa: E402
from support.forgeries.leaves import Forgery  # noqa: E402

SECONDS = 3.0
"""On a processor; a checker that takes longer for a small plan does not end."""

MOST_TOGETHER = 10
"""Rules that are switched off together before a forgery is given up."""


@contextmanager
def ends_in(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` if it does not."""

    def over(*_: object) -> None:
        raise TimeoutError("it does not end")

    signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def unreached(rule: str) -> str:
    """Why no plan file reaches a rule; nothing: one may."""
    return next((why for pattern, why in UNREACHED.items() if fnmatchcase(rule, pattern)), "")


@dataclass
class Caught:
    """What is known of each rule: the family that catches it alone, or who stands in for it."""

    alone: dict[str, str] = field(default_factory=dict)
    together: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    forged: int = 0
    only: tuple[str, ...] = ()

    def asked(self, rule: str) -> bool:
        """Whether a rule stands in one of the modules that were asked for."""
        return not self.only or rule.partition(":")[0] in self.only

    def uncaught(self) -> list[str]:
        """Rules that refuse no forgery, though one may reach them."""
        return [name for name in SWITCHES.rules if self.asked(name) and name not in self.seen and not unreached(name)]

    def _may_be_new(self, rule: str) -> bool:
        """Whether a forgery that a rule refuses may show something: with modules asked for, of a rule behind it too."""
        if self.only:
            return any(self.asked(name) and name not in self.alone and not unreached(name) for name in SWITCHES.rules)
        return rule not in self.alone

    def take(self, on: Base, forged: Forgery) -> None:
        """Put one forgery through."""
        self.forged += 1
        on = on if forged.graph is None else replace(on, graph=forged.graph)
        off: list[str] = []
        prove = False
        while len(off) < MOST_TOGETHER:
            SWITCHES.fired.clear()
            with without(*off), ends_in(SECONDS):
                said = verdict(on, forged.document, prove=prove)
                if said == ACCEPTED and not off and by_search(forged.document):
                    prove = True
                    said = verdict(on, forged.document, prove=True)
            if said == ACCEPTED or said.startswith("crash"):
                if len(off) == 1:
                    self.alone.setdefault(off[0], forged.family)
                for name in off:
                    others = tuple(n for n in off if n != name)
                    if name not in self.together or len(others) < len(self.together[name][1]):
                        self.together[name] = (forged.family, others)
                return
            if not SWITCHES.fired or (rule := SWITCHES.fired[-1]) in off:
                return
            self.seen.add(rule)
            if not off and not self._may_be_new(rule):
                return
            off.append(rule)

    def page(self, seconds: float) -> str:
        """As Markdown."""
        rules = {name: text for name, text in SWITCHES.rules.items() if self.asked(name)}
        alone = [name for name in rules if name in self.alone]
        shared = [name for name in rules if name not in self.alone and name in self.together]
        behind = [name for name in rules if name in self.seen and name not in (*alone, *shared)]
        outside, never = [name for name in rules if unreached(name)], self.uncaught()
        lines = [
            "# Each rule of the checker, broken",
            "",
            f"`python tests/checker_mutations.py`: {len(rules)} rules, each switched off; {self.forged:,} forged "
            f"plans, {seconds:.0f} s. With {len(alone)} of them off, and no other, a forged plan is accepted or the "
            f"checker falls over. {len(shared)} have stand-ins: a forged plan is accepted when those are off too. What "
            f"{len(behind)} refuse is refused by {MOST_TOGETHER} others as well. "
            f"{len(outside)} no plan file reaches. {len(never)} refuse none here.",
            "",
            "| rule | where | caught by | stand-ins |",
            "|---|---|---|---|",
        ]
        for name in rules:
            family, others = self.together.get(name, ("", ()))
            family = self.alone.get(name, family)
            others = () if name in self.alone else others
            how = family or ("others refuse too" if name in self.seen else unreached(name) or "**nothing**")
            words = rules[name][:90].replace("|", "\\|").replace("`", "'")
            lines.append(f"| `{words}` | {name} | {how} | {', '.join(others)} |")
        return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Put all forgeries through, and say which rules none of them catches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2, help="models of each kind")
    parser.add_argument("--each", type=int, default=2, help="changes of each kind of word")
    parser.add_argument("--most", type=int, default=16, help="forgeries of a family for a plan")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--only", nargs="*", default=[], metavar="MODULE", help="rules of these: check/sums, ...")
    parser.add_argument("--families", nargs="*", default=["*"], help="forgeries of these: surgery, 'changed: ops*'")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a rule refuses nothing")
    chosen = parser.parse_args(words)
    caught, began = Caught(only=tuple(chosen.only)), time.perf_counter()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        for kind in chosen.kinds:
            try:
                on = base(kind, seed)
            except VerificationError as error:
                print(f"the planner's own plan is refused: {kind} {seed}: {error}")
                continue
            if on is not None:
                for forged in forgeries(on, Random(f"{kind} {seed}"), chosen.each, chosen.most):
                    if any(fnmatchcase(forged.family, family) for family in chosen.families):
                        caught.take(on, forged)
    print(caught.page(time.perf_counter() - began))
    return 1 if chosen.strict and caught.uncaught() else 0


if __name__ == "__main__":
    sys.exit(main())
