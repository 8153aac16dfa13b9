"""Words that docs/contributing.md tells not to write: refused in pages, and counted in names, texts and screens of src.

`python tests/test_words.py` lowers the ceilings of tests/words.json to the present counts, and raises none.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CEILINGS = Path(__file__).with_name("words.json")


def glossary(checked: str) -> list[str]:
    """The terms that the last column of the glossary names behind `checked`: ``pages``, ``code`` or ``screens``."""
    page = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| ([^|]*) \|$", page[page.index("### Glossary") :], re.MULTILINE)
    lists = [match[1] for row in rows for match in re.finditer(rf"{checked}: ([^;]+)", row)]
    return [term.strip() for terms in lists for term in terms.split(",")]


def prose(page: str) -> str:
    """Headings and text of a page in lower case, without code, link targets and the glossary's own table."""
    page = page.partition("\n### Glossary\n")[0]
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^    .*$", "", page, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", page)).lower()


def words_of(path: Path) -> Iterator[str]:
    """Docstrings and comments of a module, and the names that it defines with their parts as words, in lower case."""
    text = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT).lower()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield (ast.get_docstring(node) or "").lower()
        names = [getattr(node, "name", None), getattr(node, "arg", None)]
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        for name in names:
            if isinstance(name, str):
                yield re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()


def count(terms: list[str], text: str) -> Counter[str]:
    """How often each term is in a text, as whole words; a line's end is a blank."""
    flat = " ".join(text.split())
    words = {term: re.escape(term) for term in terms}  # in front of what looks back: letters are found faster
    found = {term: len(re.findall(rf"{word}(?<![\w-]{word})(?![\w-])", flat)) for term, word in words.items()}
    return Counter({term: n for term, n in found.items() if n})


def in_pages() -> dict[str, dict[str, int]]:
    """Of each page, each term that it has, and how often."""
    terms = glossary("pages")
    found = {str(p.relative_to(ROOT)): count(terms, prose(p.read_text(encoding="utf-8"))) for p in PAGES}
    return {name: dict(sorted(words.items())) for name, words in found.items() if words}


def in_code() -> dict[str, int]:
    """Of each term, how often names, docstrings and comments of src have it."""
    terms = glossary("code")
    text = "\n.\n".join(part for path in sorted((ROOT / "src").rglob("*.py")) for part in words_of(path))
    found = count(terms, text)
    return {term: found[term] for term in sorted(terms)}


def in_screens() -> dict[str, int]:
    """Of each term, how often texts that `cli` and `report` print have it: strings with blanks but docstrings."""
    texts = [(ROOT / "src/lowtide/cli/options.toml").read_text(encoding="utf-8").lower()]
    for path in sorted(p for part in ("cli", "report") for p in (ROOT / "src/lowtide" / part).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in documents]
        texts += [n.value.lower() for n in strings if isinstance(n.value, str) and " " in n.value]
    found = count(glossary("screens"), "\n.\n".join(texts))
    return {term: found[term] for term in sorted(glossary("screens"))}


def test_the_glossary_is_read():
    """Both lists have terms, and none is in a list twice."""
    for checked, least in (("pages", 25), ("code", 25), ("screens", 10)):
        terms = glossary(checked)
        assert len(terms) >= least
        assert len(set(terms)) == len(terms)


def test_a_word_is_seen():
    """In text and headings, in docstrings and names; not in code, and not as a part of a word."""
    page = "# Told\n\nA `beside`, a besides.\nThat is as it\nstands.\n\n```text\nbeside\n```\n\n    beside\n\nA seam.\n"
    found = count(["told", "beside", "as it stands", "seam"], prose(page))
    assert found == {"told": 1, "as it stands": 1, "seam": 1}
    assert count(["whole"], re.sub("_", " ", "run_whole wholesale")) == {"whole": 1}


def test_pages_have_no_word_of_the_left_column():
    """But for what tests/words.json has left, which may only shrink."""
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8"))["pages"]
    more = [
        f"{page}: {word!r} {n} times, {ceilings.get(page, {}).get(word, 0)} allowed"
        for page, words in in_pages().items()
        for word, n in words.items()
        if n > ceilings.get(page, {}).get(word, 0)
    ]
    assert not more, "\n".join(more)


@pytest.mark.slow
@pytest.mark.parametrize("word", glossary("code"))
def test_code_has_a_word_no_more_often_than_before(word: str, counts: dict[str, int]):
    """Names, docstrings and comments of src; the right column of the glossary has what to write."""
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8"))["code"]
    assert counts[word] <= ceilings.get(word, 0)


def test_screens_have_a_word_no_more_often_than_before():
    """Help and output of commands."""
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8"))["screens"]
    assert {word: n for word, n in in_screens().items() if n > ceilings.get(word, 0)} == {}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    """Of the present sources."""
    return in_code()


def _lower() -> None:
    old = json.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else None
    pages, code, screens = in_pages(), in_code(), in_screens()
    if old is not None:
        pages = {
            page: {word: min(n, pages[page].get(word, 0)) for word, n in words.items() if pages[page].get(word, 0)}
            for page, words in old["pages"].items()
            if page in pages
        }
        code = {word: min(n, old["code"].get(word, n)) for word, n in code.items()}
        screens = {word: min(n, old.get("screens", {}).get(word, n)) for word, n in screens.items()}
    texts = {"pages": pages, "code": code, "screens": screens}
    CEILINGS.write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _lower()
