"""AmoebaNet-A (Real, Aggarwal, Huang, Le: Regularized Evolution, AAAI 2019, Figure 5)."""

from __future__ import annotations

from lowtide.zoo.cells import CIFAR, IMAGENET, Genotype, network

PAPER = "AmoebaNet-A: Real et al., Regularized Evolution for Image Classifier Architecture Search, AAAI 2019"

GENOTYPE = Genotype(
    normal=(
        ("average pool", 0), ("max pool", 1),
        ("separable 3x3", 0), ("separable 5x5", 2),
        ("separable 3x3", 0), ("average pool", 3),
        ("separable 3x3", 1), ("skip", 1),
        ("skip", 0), ("average pool", 1),
    ),
    normal_concat=(4, 5, 6),
    reduction=(
        ("average pool", 0), ("separable 3x3", 1),
        ("max pool", 0), ("separable 7x7", 2),
        ("separable 7x7", 0), ("average pool", 1),
        ("max pool", 0), ("max pool", 1),
        ("1x7 then 7x1", 0), ("separable 3x3", 5),
    ),
    reduction_concat=(3, 4, 6),
)  # fmt: skip

NETWORKS = (
    network("amoebanet_a_cifar", PAPER, GENOTYPE, CIFAR, n=6, filters=36),
    network("amoebanet_a_imagenet", PAPER, GENOTYPE, IMAGENET, n=4, filters=25),
)
