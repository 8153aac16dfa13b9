"""Zhong et al., Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization (ICCAD 2023).

`method` is Algorithm 2; it uses `fusion` (Theorems IV.1, IV.2, Algorithm 1), `partition` (section IV-C) and `ilp`
(equations 1 to 10) on a `problem`, the reduced graph. `tables` runs the paper's Tables IV to VI and Figure 9.
"""
