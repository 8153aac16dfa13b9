"""What the pages and docstrings point to is there: files of the repository, modules and names of lowtide."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from lowtide.extensions import RESEARCH

ROOT = Path(__file__).parents[1]
TREES = ("core", "docs", "examples", "packages", "src", "tests")
PAGES = [
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "benchmarks"),
    *sorted(ROOT.glob("*.md")),
    ROOT / "packages/research/README.md",
    ROOT / "packages/research/bench/README.md",
]
CODE = sorted(
    path
    for tree in ("packages/research/src", "packages/research/tests", "src", "tests")
    for path in (ROOT / tree).rglob("*.py")
)
CORE = sorted(path for path in (ROOT / "core").rglob("*") if path.suffix in (".cc", ".h"))

FILE = re.compile(
    r"(?<![\w./*<-])((?:[\w-]+/)*[\w*-]+\.(?:py|md))(?![\w/])"
    r"|(?<![\w./-])((?:bench|core|docs|src|tests)/[\w/*-]+(?:\.\w+)?)"
)
NAME = re.compile(r"`(lowtide(?:\.\w+)+)(?:\(\))?`")

NOT_OURS = {
    "FILE.py", "S.py", "s.py", "run.py", "session.py", "net.py", "NAME_session.py", "small_session.py",
    "demo/small_session.py",  # the user's
    "tests/PACKAGE/test_MODULE.py", "src/lowtide/PACKAGE/MODULE.py",
    "onnx_ml_pb2.py", "ethosu/vela/hillclimb_allocation.py", "torch/_inductor/memory.py",  # of other packages
    "docs/sections/appendix", "core/providers/cpu/math/einsum_utils", "core/providers/cpu/rnn", "src/converter.h",
    "none.py", "mine.py", "schedule.md", "allocate.md", "allocate-x.md", "executorch-x.md", "spill-x.md",  # tests make
    "docs/en/api-reference/system/himem.rst", "planned_step.py",
    "deadly.py", "once.py", "b.py", "structured_problem_schema_v1.md", "docs/structured_problem_schema_v1.md",
    "page.md", "gone.md", "S.md", "s.md", "summary.md",  # tests and users make
    "spill-two.md", "squares-few.md", "TABLE.md",
}  # fmt: skip
NOT_A_MODULE = {"lowtide.toml", "lowtide.channel_block", *RESEARCH}  # a file of the user's; a key; entry point groups


def _files() -> set[str]:
    found = [*ROOT.glob("*.md"), *(path for tree in TREES for path in (ROOT / tree).rglob("*"))]
    return {str(path.relative_to(ROOT)) for path in found}


def _is_there(reference: str, files: set[str]) -> bool:
    """Whether a path, or the end of one, is a file; ``*`` stands for anything, ``core/`` for its folders as well."""
    pattern = re.escape(reference).replace(r"\*", "[^/]*")
    pattern = pattern.replace("core/", "core/(?:[^/]+/)?", 1) if reference.startswith("core/") else pattern
    whole = re.compile(rf"(?:.*/)?{pattern}(?:\.\w+)?")
    return any(whole.fullmatch(path) for path in files)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pages", "code", "core"])
def test_every_file_that_is_named_exists(where: str):
    """A path like.py, a page or a file of the core, in docs, docstrings and comments."""
    files = _files()
    missing = [
        f"{path.relative_to(ROOT)}:{n}: {reference}"
        for path in {"pages": PAGES, "code": CODE, "core": CORE}[where]
        if path != Path(__file__)
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pair in FILE.findall(line)
        for reference in (pair[0] or pair[1],)
        if reference not in NOT_OURS and not _is_there(reference, files)
    ]
    assert not missing, "\n".join(missing)


def test_a_stale_reference_is_seen():
    """The check itself: a file that moved away, in each way of writing it."""
    files = {"src/lowtide/write/onnx.py", "core/order/model.h", "docs/proofs.md"}
    for good in ("write/onnx.py", "onnx.py", "core/model", "core/order/model.h", "core/mod*", "docs/proofs.md"):
        assert _is_there(good, files), good
    for stale in ("write/session.py", "nnx.py", "core/solve", "docs/spec.md", "proof.md"):
        assert not _is_there(stale, files), stale


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module of lowtide, or an attribute of one, or of a class in it."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = find_spec(".".join(parts[:cut])) is not None
        except ModuleNotFoundError:
            continue
        if not found:
            continue
        at: object = importlib.import_module(".".join(parts[:cut]))
        for attribute in parts[cut:]:
            fields = getattr(at, "__dataclass_fields__", {}) | dict.fromkeys(getattr(at, "__annotations__", ()))
            if hasattr(at, attribute):
                at = getattr(at, attribute)
            elif attribute not in fields:
                return False
        return True
    return False


def test_every_name_in_backticks_exists():
    """Dotted names of lowtide in docs and docstrings."""
    named = {
        (name, path.relative_to(ROOT))
        for path in (*PAGES, *CODE)
        for name in NAME.findall(path.read_text(encoding="utf-8"))
    }
    missing = [f"{path}: {name}" for name, path in sorted(named) if name not in NOT_A_MODULE and not _resolves(name)]
    assert len(named) > 30
    assert not missing, "\n".join(missing)


def test_links_between_pages_lead_somewhere():
    """Relative links in Markdown, and the headings they name."""
    missing: list[str] = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"\w+:", target) or target.startswith("../benchmarks/"):  # pages that `make docs` makes
                continue
            file, _, heading = target.partition("#")
            goal = page.parent / file if file else page
            if not goal.exists():
                missing.append(f"{page.name}: {target}")
            elif heading:
                lines = [x.strip("# ").lower() for x in goal.read_text(encoding="utf-8").splitlines() if x[:1] == "#"]
                slugs = {re.sub(r"[^\w -]", "", line).replace(" ", "-") for line in lines}
                assert heading in slugs, f"{page.name}: {target}"
    assert not missing, missing


def test_every_make_target_that_is_named_exists():
    """`make test` and its like, in pages and docstrings."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in (*PAGES, *CODE):
        named = set(re.findall(r"(?:`|^    )make ([a-z]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, f"{path.relative_to(ROOT)}: {named - targets}"
