"""A graph becomes another graph: pure functions, one change a file."""
