"""COSMA (Li, Gupta, Malik, arXiv 2311.18246): one integer program for order, residency and addresses.

`tensors` is what the program is about, `program` its equations (1) to (8) and (12) to (17), `addresses` (9) to (11)
and MODeL's, `solution` reads them back, `solve` runs them, `divide` cuts a graph into parts, `method` is the front.
"""
