"""What an op means: which rows it reads for which rows of its result, its family, its cost; nothing about memory.

`table` is one row per op kind. `index` and `access` are the maps, `forms` canonical parameters, `families` what is
written once for many ops (`windows`, `rearrange`); `meaning` asks the operator table of a graph's dialect and says how
a table is written. Nothing here runs an op: `run/probe.py` proves the maps.
"""
