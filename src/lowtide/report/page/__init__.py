"""A plan as one HTML file: words, tables, and a script of our own that draws what `lowtide.report.view` says."""
