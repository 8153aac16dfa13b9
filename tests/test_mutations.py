from __future__ import annotations

from pathlib import Path

import pytest

from fission_mutations import FISSION_MUTATIONS
from mutations import CORE, MUTATIONS
from support.mutation import Mutation, apply

PACKAGE = CORE.parent / "src" / "lowtide"
ALL = [(CORE, m) for m in MUTATIONS] + [(PACKAGE, m) for m in FISSION_MUTATIONS]


@pytest.mark.parametrize(("folder", "mutation"), ALL, ids=[m.name for _, m in ALL])
def test_old_text_occurs_once(folder: Path, mutation: Mutation) -> None:
    """`python tests/mutations.py` and `python tests/fission_mutations.py` can still apply it."""
    assert (folder / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_names_are_unique() -> None:
    """So that one can be asked for."""
    assert len({m.name for _, m in ALL}) == len(ALL)


def test_text_that_is_gone_is_refused(tmp_path: Path) -> None:
    """A mutation that no longer applies is an error, not a survivor."""
    (tmp_path / "order").mkdir()
    (tmp_path / "order/walker.cc").write_text("nothing of it")
    with pytest.raises(ValueError, match="occurs 0 times"):
        apply(next(m for m in MUTATIONS if m.file == "order/walker.cc"), tmp_path)
