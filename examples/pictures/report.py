"""Why is this the peak? A report in one HTML file, figures for a page or a paper: python report.py MODEL FOLDER

In a notebook the last line of a cell is enough: `plan` shows a line of numbers and the figure of live bytes.
"""

import sys
from pathlib import Path

import lowtide

model, folder = sys.argv[1], Path(sys.argv[2])
before = lowtide.research.plan(model, method="own")
plan = lowtide.research.plan(model)

plan.report(folder / "report.html", before=before, trace=folder / "trace.json", svg=folder / "figure")
before.save(folder / "before.plan.json")  # lowtide report before.plan.json after.plan.json -o report.html
plan.save(folder / "after.plan.json")

(folder / "cell.html").write_text(plan._repr_html_())  # what a notebook shows
print(plan)  # what `lowtide research plan` prints

seen = lowtide.inspect(model, ladder=0)
assert seen.peak is not None
print(f"the peak in own order, {seen.own_order_peak_bytes:,} B, is at step {seen.peak.step}:")
for live in seen.peak.live[:5]:
    print(f"  {live.counted_bytes:10,} B  {live.name}: {live.peak_if_gone_bytes:,} B without it")
