"""What a page says in addition to its figures: numbers, the peak as a sum, what would help, how sure that is. Every
name is escaped here."""

from __future__ import annotations

from lowtide.report.comparison import who_left
from lowtide.report.conflict import conflict_text
from lowtide.report.peak import peak_groups, top_at_peak, what_ifs
from lowtide.report.svg import short, text
from lowtide.report.view import PlanView
from lowtide.report.wording import caveats, made_line, numbers, peak_line, proof_sentence, share_of, today_line

MOST_ROWS = 200  # of a table that is in the page whether it is opened or not


def head_html(view: PlanView, before: PlanView | None = None) -> str:
    """Headline, what a runtime takes today and with the plan, and numbers."""
    cards = "".join(_card(*row) for row in numbers(view, before))
    return f'{_head(view)}\n<ul class="cards">{cards}</ul>'


def words_html(view: PlanView, before: PlanView | None = None) -> str:
    """The sum of the peak, advice and proof; with another plan, who left the peak."""
    parts = [] if before is None else [_left(before, view)]
    box = [_sum(view), _advice(view), _sure(view)]
    return "\n".join([*parts, '<section class="words">', *box, "</section>", _at_peak(view)])


def sentence(value: str) -> str:
    """A sentence of ours as HTML, commands between backticks as such; names in it are escaped as `text` does."""
    words = text(value).split("`")
    return "".join(word if k % 2 == 0 else f"<code>{word}</code>" for k, word in enumerate(words))


def _head(view: PlanView) -> str:
    plan = view.plan
    today = f'\n<p class="today">{text(today_line(plan.runtime_figures))}</p>' if plan.runtime_figures else ""
    line = f"{made_line(view)}; lowtide {plan.lowtide}"
    return f'<h1>{text(plan.graph) or "a graph"}</h1>\n<p class="dim">{text(line)}</p>{today}'


def _card(name: str, size: int, note: str) -> str:
    bad = ' class="bad"' if name == "excess" else ""
    more = f"; {text(note)}" if note else ""
    return f"<li{bad}><span>{text(name)}</span><b>{short(size)}</b><span>{size:,} B{more}</span></li>"


def _sum(view: PlanView) -> str:
    """The peak as a sum of groups, with shares of the budget where there is one."""
    if not view.steps:
        return "<p>No ops run.</p>"
    of, total = share_of(view)
    rows = []
    for g in peak_groups(view):
        share = 100 * g.bytes / max(total, 1)
        wide = f'<svg width="{min(share, 100):.0f}" height="10" aria-hidden="true">'
        bar = f'{wide}<rect width="100" height="10" fill="#56b4e9"/></svg>'
        rows.append(
            f'<tr><th scope="row">{text(g.name)}</th><td>{text(g.kind)}</td><td class="number">{g.count:,}</td>'
            f'<td class="number">{g.age:,}</td>'
            f'<td class="number">{g.bytes:,}</td><td class="number">{share:.1f} %</td><td>{bar}</td></tr>'
        )
    shared = view.shared_bytes[view.peak_step]
    if shared:
        rows.append(
            '<tr><th scope="row">counted once: outputs over inputs that end</th><td></td><td></td><td></td>'
            f'<td class="number">−{shared:,}</td><td class="number">−{100 * shared / max(total, 1):.1f} %</td>'
            "<td></td></tr>"
        )
    return (
        f"<h3>The peak: {text(peak_line(view))}</h3>"
        '<div class="scroll"><table><thead><tr><th scope="col">made in</th><th scope="col">kind</th>'
        '<th scope="col" class="number">tensors</th><th scope="col" class="number">steps old</th>'
        '<th scope="col" class="number">bytes</th>'
        f'<th scope="col" class="number">of {of}</th><th></th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _advice(view: PlanView) -> str:
    rows = []
    for i in top_at_peak(view):
        r = view.rectangles[i]
        ideas = what_ifs(view, i)
        ideas_html = "<br>".join(
            f"{text(w.change)}: −{view.peak_bytes - w.peak_bytes:,} B, to {w.peak_bytes:,} B" for w in ideas
        )
        form = " ".join(filter(None, (r.dtype, r.shape)))
        rows.append(
            f'<tr><th scope="row">{text(r.name)}<br><span class="dim">{text(form)} {r.kind}</span></th>'
            f'<td class="number">{r.size:,}</td>'
            f"<td>{ideas_html or 'nothing helps: another step needs as much without it'}</td></tr>"
        )
    if not rows:
        return ""
    return (
        "<h3>What would help: the five largest at the peak</h3>"
        '<div class="scroll advice"><table><thead><tr><th scope="col">tensor</th>'
        '<th scope="col" class="number">bytes</th>'
        f'<th scope="col">if it were</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        '<p class="note">Each is computed for this plan’s own order, so the gain is proved: an order that needs no '
        "more is at hand. The best order after the change may need still less. What tiling gives, "
        "<code>lowtide inspect MODEL</code> says.</p>"
    )


def _sure(view: PlanView) -> str:
    conflict = conflict_text(view.plan)
    over = "" if conflict is None else f'<p class="over-budget">Too much: {text(conflict)}.</p>'
    items = "".join(f"<li>{sentence(line)}</li>" for line in caveats(view.plan))
    return f"{over}<h3>How sure that is</h3><p>{sentence(proof_sentence(view.plan))}</p><ul>{items}</ul>"


def _at_peak(view: PlanView) -> str:
    """Everything live at the peak, for those who read no picture."""
    live = view.at(view.peak_step) if view.steps else []
    rows = "".join(_peak_row(view, i) for i in live[:MOST_ROWS])
    more = f"<p>the first {MOST_ROWS:,} of {len(live):,}</p>" if len(live) > MOST_ROWS else ""
    numbers = "".join(f'<th scope="col" class="number">{h}</th>' for h in ("bytes", "from step", "to step"))
    heads = f'<th scope="col">tensor</th><th scope="col">kind</th>{numbers}<th scope="col">address</th>'
    return (
        f"<details><summary>everything live at the peak ({len(live):,})</summary>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}</details>'
    )


def _peak_row(view: PlanView, i: int) -> str:
    r = view.rectangles[i]
    at = "" if r.offset is None else f"0x{r.offset:08x}"
    numbers = "".join(f'<td class="number">{n:,}</td>' for n in (r.size, r.start, r.end - 1))
    return f"<tr><td>{text(r.name)}</td><td>{r.kind}</td>{numbers}<td>{at}</td></tr>"


def _left(before: PlanView, after: PlanView) -> str:
    rows = "".join(_left_row(*row) for row in who_left(before, after)[:MOST_ROWS])
    numbers = "".join(f'<th scope="col" class="number">{h}</th>' for h in ("before", "after"))
    heads = f'<th scope="col">tensor</th>{numbers}<th></th>'
    return (
        "<h2>Who left the peak, and who came</h2>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _left_row(name: str, old: int, new: int) -> str:
    word = "left" if not new else "came" if not old else "stays" if old == new else "smaller" if new < old else "larger"
    numbers = "".join(f'<td class="number">{n:,}</td>' if n else '<td class="number">–</td>' for n in (old, new))
    return f"<tr><td>{text(name)}</td>{numbers}<td>{word}</td></tr>"
