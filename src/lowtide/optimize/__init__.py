"""Searches for plans that change the graph: which regions are cut, and in how many stripes."""
