"""Training and inference steps of PyTorch modules under a byte budget: `compile_step`, `compile`, `measure`,
`curve`, `record`, `partitioner`.

torch itself is imported by the calls, not here.
"""

from lowtide.torch.cost import Costs
from lowtide.torch.curve import Curve, CurvePoint, curve
from lowtide.torch.partition import partitioner
from lowtide.torch.record import Recorded, record
from lowtide.torch.step import Step, compile, compile_step, measure
from lowtide.torch.step_options import StepOptions
from lowtide.torch.step_plan import StepPlan

__all__ = [
    "Costs",
    "Curve",
    "CurvePoint",
    "Recorded",
    "Step",
    "StepOptions",
    "StepPlan",
    "compile",
    "compile_step",
    "curve",
    "measure",
    "partitioner",
    "record",
]
