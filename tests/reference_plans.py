"""Plans a fixed list of questions again, and says which answers are worse than the recorded ones.

Each line of reference_plans.csv is a question (a model, a target, what may change, a budget, a largest overhead, a
limit of seconds) with the answer on record. Models are files of a folder given here, or built-in networks (zoo:NAME);
a question whose model is not there is left out. To add a question, add a line that has the question's columns alone.

    python tests/reference_plans.py [FOLDER]            plan, and compare with the record
    python tests/reference_plans.py [FOLDER] --record   the same, and write down what was asked

An answer of now is worse if a budget that fitted does not fit, if more bytes are required or, for as many, more
overhead, if a proof is lost, or if the bound fell though no fewer bytes are required. Without changes to the model, a
peak below a recorded bound is an error of one of the two. Answers are also held beside each other: a larger budget or
overhead must not give a worse plan. What the clock ended (`stopped`) can differ from run to run: the report says so.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import lowtide

RECORD = Path(__file__).with_suffix(".csv")
RANKS = ("ok", "over_budget", "impossible", "unproved", "error")
"""Statuses, the best first: whether a plan fits its budget, and if not whether that is known of every plan."""
COUNTERS = ("states", "beam_states", "cuts", "variables", "chains", "repairs")
"""What searches count as work; it does not depend on the machine."""


@dataclass(frozen=True)
class Question:
    """What is asked. Empty: not given."""

    model: str
    target: str
    allow: str
    budget: str
    max_overhead: str
    limit_seconds: str


@dataclass(frozen=True)
class Answer:
    """What a plan says; bytes as the plan has them, seconds of the processor."""

    status: str
    stopped: str = ""
    required_bytes: int = 0
    peak_bytes: int = 0
    bound_bytes: int = 0
    proof: str = ""
    overhead: float = 0.0
    seconds: float = 0.0
    work: int = 0

    @property
    def fits(self) -> bool:
        """Whether there is a plan, within its budget if it has one."""
        return self.status == "ok"


Answers = dict[Question, Answer]


def ask(question: Question, folder: Path | None) -> Answer | None:
    """Plan it; None if the model is not there."""
    model = question.model
    if not model.startswith("zoo:"):
        if folder is None or not (folder / model).exists():
            return None
        model = str(folder / model)
    given = {
        "allow": question.allow.split("+") if question.allow else (),
        "budget": question.budget or None,
        "max_overhead": question.max_overhead or None,
        "time": float(question.limit_seconds),
    }
    began = process_time()
    try:
        plan = lowtide.research.plan(model, target=question.target, **given)
    except lowtide.LowtideError as error:
        print(f"{named(question)}: {error}", file=sys.stderr)
        return Answer("error")
    overhead = 0.0
    if plan.cost is not None:
        overhead = plan.cost.overhead
    elif plan.recomputation is not None:
        overhead = plan.recomputation.planned / plan.recomputation.once - 1
    return Answer(
        plan.status,
        plan.stopped,
        plan.required_bytes,
        plan.peak_bytes,
        plan.lower_bound_bytes,
        type(plan.certificate).__name__.removesuffix("Certificate") if plan.optimal else "",
        round(overhead, 6),
        round(process_time() - began, 2),
        sum((plan.search or {}).get(name, 0) for name in COUNTERS),
    )


def worse(question: Question, before: Answer, now: Answer) -> str:
    """What is worse now, in words; empty if nothing is."""
    if before.status == "error":
        return ""
    if now.status == "error":
        return "no answer"
    if not question.allow and (now.peak_bytes < before.bound_bytes or before.peak_bytes < now.bound_bytes):
        return "a bound lies above a peak that was attained"
    if RANKS.index(now.status) > RANKS.index(before.status) or (before.status, now.status) == ("impossible", "ok"):
        return f"status {now.status}, not {before.status}"
    if before.status == "impossible" and now.status != "impossible":
        return "no longer known to be impossible"
    if now.fits and not before.fits:
        return ""
    if now.fits and question.budget and (now.overhead or before.overhead):
        return "more overhead" if now.overhead > before.overhead else ""
    if now.required_bytes != before.required_bytes:
        return "more bytes required" if now.required_bytes > before.required_bytes else ""
    if now.peak_bytes > before.peak_bytes:
        return "a higher peak"
    if now.overhead > before.overhead:
        return "more overhead"
    if before.proof and not now.proof:
        return "proof lost"
    return "a lower bound" if now.bound_bytes < before.bound_bytes else ""


def amount(text: str) -> float:
    """A share or a number of bytes, to sort by; nothing given is no limit."""
    return float(text.rstrip("%").rstrip("B")) if text else float("inf")


def not_monotone(answers: Answers) -> Iterator[tuple[Question, Question, str]]:
    """Pairs of questions of which the second has the looser limit and the worse answer."""
    for by in ("budget", "max_overhead"):
        alike: dict[Question, list[Question]] = defaultdict(list)
        for question in answers:
            alike[replace(question, **{by: ""})].append(question)
        for group in alike.values():
            for tight, loose in pairwise(sorted(group, key=lambda q: amount(getattr(q, by)))):
                what = worse_when_looser(by, answers[tight], answers[loose])
                if what:
                    yield tight, loose, what


def worse_when_looser(by: str, tight: Answer, loose: Answer) -> str:
    """What is worse under the looser of two limits, in words."""
    if "error" in (tight.status, loose.status):
        return ""
    if tight.fits and not loose.fits:
        return f"status {loose.status}, not {tight.status}"
    if not tight.fits:
        return ""
    if by == "max_overhead":
        return "more bytes required" if loose.required_bytes > tight.required_bytes else ""
    return "more overhead" if loose.overhead > tight.overhead else ""


def named(question: Question) -> str:
    """The question in one line."""
    return " ".join(f"{f.name}={value}" for f in fields(question) if (value := getattr(question, f.name)))


def read(path: Path) -> dict[Question, Answer | None]:
    """The questions in their order, each with its answer if it has one."""
    count = len(fields(Question))
    rows: dict[Question, Answer | None] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            values = list(row.values())
            kinds = [type(f.default) for f in fields(Answer)[1:]]
            said = values[count + 1 :] if row["status"] else []
            answer: list[Any] = [kind(value) for kind, value in zip(kinds, said, strict=False)]
            rows[Question(*values[:count])] = Answer(row["status"], *answer) if row["status"] else None
    return rows


def write(path: Path, rows: dict[Question, Answer | None]) -> None:
    """One line a question, in the order given."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(f.name for f in (*fields(Question), *fields(Answer)))
        for question, answer in rows.items():
            writer.writerow((*astuple(question), *(astuple(answer) if answer else [""] * len(fields(Answer)))))


def report(before: dict[Question, Answer | None], now: Answers) -> Iterable[str]:
    """A line for each answer that is worse than its record, or than that under a tighter limit."""
    for question, answer in now.items():
        recorded = before[question]
        what = "" if recorded is None else worse(question, recorded, answer)
        if recorded is not None and what:
            clock = " (the clock ended one)" if "time" in (answer.stopped, recorded.stopped) else ""
            yield f"worse: {named(question)}: {what}{clock}\n  before {recorded}\n  now    {answer}"
    for tight, loose, what in not_monotone(now):
        clock = " (the clock ended one)" if "time" in (now[tight].stopped, now[loose].stopped) else ""
        yield f"not monotone: {named(loose)}: {what}{clock}\n  under {named(tight)}\n  {now[tight]}\n  {now[loose]}"


def main() -> int:
    """Ask, compare, and write down; exit with 1 if anything is worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the models are that are not built in")
    parser.add_argument("--file", type=Path, default=RECORD, help="the record (default: beside this script)")
    parser.add_argument("--only", default="", help="ask what has this in its line")
    parser.add_argument("--new", action="store_true", help="ask only what has no answer on record")
    parser.add_argument("--record", action="store_true", help="write down the answers to what was asked")
    arguments = parser.parse_args()
    rows = read(arguments.file)
    now: Answers = {}
    for question in rows:
        if arguments.only in named(question) and not (arguments.new and rows[question]):
            answer = ask(question, arguments.folder)
            if answer is not None:
                now[question] = answer
                print(f"{named(question)}: {answer}", file=sys.stderr)
                if arguments.record:
                    write(arguments.file, {**rows, **now})
    lines = list(report(rows, now))
    print(*lines, f"{len(now)} of {len(rows)} questions asked, {len(lines)} worse or not monotone", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
