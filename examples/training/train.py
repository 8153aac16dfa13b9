"""Train a small image classifier in at most 60 % of the memory that it takes in eager mode. Needs torch.

python examples/training/train.py
"""

import torch
from torch import nn

import lowtide.torch

torch.manual_seed(0)
blocks = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()) for _ in range(8)]
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loss_fn = nn.CrossEntropyLoss()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Images of one brightness each, which is their class."""
    labels = torch.randint(10, (16,))
    return labels.view(-1, 1, 1, 1) / 10 + 0.1 * torch.randn(16, 3, 32, 32), labels


step = lowtide.torch.compile_step(model, loss_fn, batch(), optimizer=optimizer, budget="60%")
print(step)
print(f"{len(step.plan.ops) - len(step.graph.ops)} ops run again")
step.save("step.json")  # compile_step(..., plan="step.json") replays it in another process
step.emit("planned_step.py")  # what runs, as plain Python

for k in range(40):
    loss = step(*batch())
    if k % 10 == 9:
        print(f"step {k + 1}: loss {loss.item():.3f}")
