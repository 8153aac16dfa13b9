"""Memory planning for ExecuTorch, by the name that users import it by; see `lowtide.runtimes.executorch`."""

from lowtide.runtimes.executorch import MemoryPlanner, algorithm_suite, plan_memory

__all__ = ["MemoryPlanner", "algorithm_suite", "plan_memory"]
