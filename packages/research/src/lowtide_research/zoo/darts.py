"""DARTS, second order (Liu, Simonyan, Yang: DARTS: Differentiable Architecture Search, ICLR 2019)."""

from __future__ import annotations

from lowtide_research.zoo.cells import CIFAR, IMAGENET, Genotype, network

PAPER = "DARTS (second order): Liu et al., DARTS: Differentiable Architecture Search, ICLR 2019"

GENOTYPE = Genotype(
    normal=(
        ("separable 3x3", 0), ("separable 3x3", 1),
        ("separable 3x3", 0), ("separable 3x3", 1),
        ("separable 3x3", 1), ("skip", 0),
        ("skip", 0), ("single separable 3x3", 2),
    ),
    normal_concat=(2, 3, 4, 5),
    reduction=(
        ("max pool", 0), ("max pool", 1),
        ("skip", 2), ("max pool", 1),
        ("max pool", 0), ("skip", 2),
        ("skip", 2), ("max pool", 1),
    ),
    reduction_concat=(2, 3, 4, 5),
)  # fmt: skip
"""The dilated convolution is a single separable one without dilation, as in HMCOS's networks: same bytes."""

NETWORKS = (
    network("darts_cifar", PAPER, GENOTYPE, CIFAR, n=6, filters=36),
    network("darts_imagenet", PAPER, GENOTYPE, IMAGENET, n=4, filters=24),
)
