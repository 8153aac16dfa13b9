"""What an op means: which rows it reads for which rows of its result, its family, its cost, and what it may write over.

`kinds` is the table of op kinds: views, and elementwise ops with the inputs that their kernels may overwrite. `raster`
says how far a result that is made row by row may overlap its inputs, `effects` in which order ops that write to the
same bytes stay, and `working_set` the least memory of any tiling. What a runtime makes of this is in `rules`. `index`
and `access` are the maps, `forms` canonical parameters, `families` what is written once for many ops (`windows`,
`rearrange`); `meaning` asks the operator table of a graph's dialect and says how a table is written. Nothing here runs
an op: `run/probe.py` proves the maps.
"""
