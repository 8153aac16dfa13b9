"""The HTML document: all of it in one file, nothing asked of any server, no name of a model taken as markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from lowtide.report.page.front import front_html
from lowtide.report.page.pack import Packed, pack
from lowtide.report.page.words import head_html, words_html
from lowtide.report.svg import text, timeline_svg
from lowtide.report.view import PlanView

SCRIPTS = ("data.js", "panel.js", "page.js")  # the parts of the page's script, in order: no part works alone

TITLES = ("after", "before")
"""What two plans are called: the one that the report is about, and the one that it is held beside."""


def page(view: PlanView, before: PlanView | None = None) -> str:
    """The report of a plan; with `before` next to that of another plan. `view`: the plan that the report is about.
    `before`: another plan, of the same model or of a model with ops of the same names: its bytes stand grey behind the
    plan's, when the same op runs, and its figures come after."""
    views = [view] if before is None else [view, before]
    titles = [view.plan.graph] if before is None else list(TITLES)
    body = [head_html(view, before)]
    for k, (shown, title) in enumerate(zip(views, titles, strict=True)):
        heading = "" if before is None else f"<h2>{text(title)}: {text(shown.plan.graph)}</h2>\n"
        still = timeline_svg(shown, prefix=f"still{k}")
        body.append(f'{heading}<section id="plan-{k}"><noscript>{still}</noscript></section>')
        if k == 0:
            body.append(words_html(view, before))
    return _document(view.plan.graph, body, pack(views, titles))


def page_of_several(views: Sequence[PlanView], names: Sequence[str]) -> str:
    """The report of plans of one model, by name: their front, and one of them at a time. `views`: two or more. `names`:
    what the plans are called."""
    body = [f"<h1>{text(views[0].plan.graph) or 'a graph'}: {len(views)} plans</h1>", front_html(views, names)]
    for k, (shown, name) in enumerate(zip(views, names, strict=True)):
        still = timeline_svg(shown, prefix=f"still{k}")
        body += [
            f'<div class="choice" id="choice-{k}">', f"<h2>{text(name)}</h2>", head_html(shown),
            f'<section id="plan-{k}"><noscript>{still}</noscript></section>', words_html(shown), "</div>",
        ]  # fmt: skip
    return _document(views[0].plan.graph, body, pack(views, names))


def _document(name: str, body: Sequence[str], data: Packed) -> str:
    script, style = "".join(map(_asset, SCRIPTS)), _asset("page.css")
    allowed = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:"
    form = "deflate" if data.deflated else "stored"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{text(name)}: memory</title>",
            f"<style>{style}</style></head>",
            "<body>",
            *body,
            '<p id="trouble" hidden></p>',
            f'<script type="application/octet-stream" id="lowtide-data" data-form="{form}">',
            data.text,
            "</script>",
            f"<script>{script}</script>",
            "</body></html>",
            "",
        ]
    )


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a Content-Security-Policy knows a script or style by; no other one runs."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
