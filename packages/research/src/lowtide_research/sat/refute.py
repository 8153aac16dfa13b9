"""A formula refuted by programs of others: CaDiCaL finds a proof, drat-trim adds hints, cake_lpr accepts it or not.

cake_lpr is verified down to its machine code (Tan, Heule, Myreen, "cake_lpr: Verified Propagation Redundancy Checking
in CakeML", TACAS 2021), so that neither lowtide, nor CaDiCaL, nor drat-trim need be trusted: only the formula.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lowtide.errors import InputError
from lowtide_research.sat.formula import Formula

PROGRAMS = ("cadical", "drat-trim", "cake_lpr")
SATISFIABLE, UNSATISFIABLE = 10, 20  # exit statuses of solvers
WHERE = "cadical is a package of Debian; drat-trim and cake_lpr are built by one call of gcc from their repositories"
Status = Literal["refuted", "satisfiable", "time", "not accepted"]


@dataclass(frozen=True)
class Refutation:
    """What came of a formula; `proof_bytes` of the proof that was accepted."""

    status: Status
    variables: int
    clauses: int
    seconds: float
    proof_bytes: int = 0


def find_programs() -> dict[str, str]:
    """The three programs. Raises `InputError`: one is not on the path; where to get it."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise InputError(f"{', '.join(missing)} not found on PATH; {WHERE}")
    return {name: path for name, path in found.items() if path is not None}


def refute(formula: Formula, folder: Path, seconds: float, about: tuple[str, ...] = ()) -> Refutation:
    """Look for a refutation within a time, and have it checked. Files ``formula.cnf``, ``proof.drat`` and
    ``proof.lrat`` stay in the folder. Raises `InputError`: a program is missing."""
    programs = find_programs()
    cnf, drat, lrat = (folder / name for name in ("formula.cnf", "proof.drat", "proof.lrat"))
    cnf.write_text(formula.dimacs(about), encoding="utf-8")
    began = time.monotonic()

    def result(status: Status) -> Refutation:
        size = lrat.stat().st_size if status == "refuted" else 0
        return Refutation(status, formula.variables, len(formula.clauses), time.monotonic() - began, size)

    limit = max(1, round(seconds))
    solved = subprocess.run(
        [programs["cadical"], "-q", "-n", "-t", str(limit), cnf, drat], capture_output=True, check=False
    )
    if solved.returncode != UNSATISFIABLE:
        return result("satisfiable" if solved.returncode == SATISFIABLE else "time")
    hints = [programs["drat-trim"], cnf, drat, "-L", lrat, "-t", str(20 * limit)]
    subprocess.run(hints, capture_output=True, check=False)
    return result("refuted" if lrat.exists() and is_accepted(cnf, lrat) else "not accepted")


def is_accepted(cnf: Path, lrat: Path) -> bool:
    """Whether the verified checker accepts a proof that a formula is unsatisfiable."""
    done = subprocess.run([find_programs()["cake_lpr"], cnf, lrat], capture_output=True, text=True, check=False)
    return "s VERIFIED UNSAT" in done.stdout.splitlines()
