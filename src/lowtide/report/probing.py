"""What probing a model's ops showed, as text."""

from __future__ import annotations

from lowtide.report.columns import columns
from lowtide.run.probing import NodeProbe, Probing

_SHOWN = 20


def probing_text(probing: Probing) -> str:
    """A table of op types, then what is wrong, not run and opaque, then one line for all."""
    head = ("op", "family", "nodes", "distinct", "parts", "sums", "wrong", "tight", "exact")
    rows: list[tuple[str, ...]] = [head]
    for kind in probing.kinds:
        tight = f"{kind.moved / kind.tested:.1%}" if kind.tested else ""
        counts = (kind.nodes, kind.distinct, kind.parts, kind.sums, kind.wrong)
        rows.append((kind.type, kind.family, *(f"{count:,}" for count in counts), tight, kind.exact))
    blocks = [columns(rows, right=range(2, 8))]
    blocks += _listed("wrong", [f"{_label(p)}: {line}" for p in probing.probes for line in p.wrong])
    blocks += _listed("not run", [f"{_label(p)}{_and_others(p)}: {p.skipped}" for p in probing.probes if p.skipped])
    blocks += _listed("opaque", [f"op {o.op} {o.name!r} ({o.type}): {o.reason}" for o in probing.opaque])
    return "\n\n".join([*blocks, _verdict(probing)])


def _verdict(probing: Probing) -> str:
    run = [p for p in probing.probes if not p.skipped]
    smaller = sum(p.smaller for p in run)
    known = probing.nodes - len(probing.opaque)
    share = f" ({known / probing.nodes:.1%})" if probing.nodes else ""
    return (
        f"{known:,} of {probing.nodes:,} nodes{share} have a map; {len(run):,} distinct ones run, {smaller:,} of them "
        f"on smaller operands: {probing.parts:,} parts, {probing.sums:,} sums, {probing.wrong:,} wrong"
    )


def _label(probe: NodeProbe) -> str:
    return f"op {probe.op} {probe.name!r} ({probe.type})"


def _and_others(probe: NodeProbe) -> str:
    return f" and {probe.nodes - 1} like it" if probe.nodes > 1 else ""


def _listed(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return ["\n".join([f"{title}:", *(f"  {line}" for line in lines[:_SHOWN]), *more])]
