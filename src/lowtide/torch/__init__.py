"""Training and inference steps of PyTorch modules under a byte budget: `compile_step`, `compile`, `measure`.

torch itself is imported by the calls, not here.
"""

from lowtide.torch.step import Step, compile, compile_step

__all__ = ["Step", "compile", "compile_step"]
