"""MLSys 2026's graph-scheduling contest: reader, evaluator, planner, lower bounds.

The statement is in github.com/yarongmu-google/MLSys at 38a2a69. Operators (MatMul, Pointwise) are fused into
groups that run one after another. A group runs tile by tile with one granularity (width, height, depth of the
reduction); what passes inside a group takes no memory and no time; each step takes the longer of its compute and its
transfers. `evaluate.py` says how this reads the statement.
"""
