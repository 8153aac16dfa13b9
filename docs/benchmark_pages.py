"""The site's pages of benchmarks, made of bench/README.md and results/ of packages/research.

    python docs/benchmark_pages.py FOLDER

Every table there is a page, with its pictures beside it, and the index says of each what it shows and which command
made it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

INDEX = """# Benchmarks

Every figure that these pages print comes from a command or a script of the repository, whose output is kept with
version, commit and processor. The protocol, and what each table is made with:

{protocol}

## Tables

| table | what | made by |
|---|---|---|
{rows}

```{{toctree}}
:hidden:
{pages}
```
"""


def write(research: Path, folder: Path) -> list[str]:
    """Write the pages and their pictures into a folder, and remove those that are gone.

    Returns
    -------
    list of str
        Names of the tables.
    """
    readme = (research / "bench/README.md").read_text(encoding="utf-8")
    tables = {path.stem: path.read_text(encoding="utf-8") for path in sorted((research / "results").glob("*.md"))}
    folder.mkdir(exist_ok=True)
    pictures = {path.name: path.read_text(encoding="utf-8") for path in sorted((research / "results").glob("*.svg"))}
    wanted = {"index.md", *pictures, *(f"{name}.md" for name in tables)}
    for path in (*folder.glob("*.md"), *folder.glob("*.svg")):
        if path.name not in wanted:
            path.unlink()
    for name, text in pictures.items():
        _write(folder / name, text)
    for name, text in tables.items():
        _write(folder / f"{name}.md", _titled(name, _local(text, tables)))
    about = dict(_rows(readme, list(tables)))
    cells = {name: _local(" | ".join(about.get(name, (_title(text), ""))), tables) for name, text in tables.items()}
    rows = "\n".join(f"| [{name}]({name}.md) | {cell} |" for name, cell in cells.items())
    protocol = readme[readme.index("## Protocol") : readme.index("## Results")].partition("\n")[2].strip()
    _write(folder / "index.md", INDEX.format(protocol=_local(protocol, tables), rows=rows, pages="\n".join(tables)))
    return list(tables)


def _rows(readme: str, names: list[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What the table of results says of each: what it is, and what made it. A name with a star stands for several."""
    for line in readme[readme.index("## Results") :].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if len(cells) == 3:
            for pattern in re.findall(r"`([\w*-]+)", cells[0]):
                wanted = re.compile(re.escape(pattern).replace(r"\*", ".*"))
                yield from ((name, (cells[1], cells[2])) for name in names if wanted.fullmatch(name))


def _titled(name: str, text: str) -> str:
    return text if text.lstrip().startswith("# ") else f"# {name}\n\n{text}"


def _title(text: str) -> str:
    return text.lstrip("# \n").splitlines()[0] if text.strip() else ""


def _local(text: str, tables: dict[str, str]) -> str:
    """Links to files that are no pages of the site become their names."""

    def link(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        known = target.endswith(".md") and "/" not in target and target[:-3] in tables
        return match[0] if known or re.match(r"\w+:", target) else f"{match[1]} (`{Path(target).name}`)"

    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)", link, text)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # what is as it was need not be built again
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parents[1] / "packages/research", Path(sys.argv[1]))
