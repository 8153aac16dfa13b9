"""NASNet-A (Zoph, Vasudevan, Shlens, Le: Learning Transferable Architectures, CVPR 2018, Figure 4)."""

from __future__ import annotations

from lowtide_research.zoo.cells import CIFAR, IMAGENET, Genotype, network

PAPER = "NASNet-A: Zoph et al., Learning Transferable Architectures for Scalable Image Recognition, CVPR 2018"

GENOTYPE = Genotype(
    normal=(
        ("separable 5x5", 1), ("separable 3x3", 0),
        ("separable 5x5", 0), ("separable 3x3", 0),
        ("average pool", 1), ("skip", 0),
        ("average pool", 0), ("average pool", 0),
        ("separable 3x3", 1), ("skip", 1),
    ),
    normal_concat=(0, 2, 3, 4, 5, 6),
    reduction=(
        ("separable 5x5", 1), ("separable 7x7", 0),
        ("max pool", 1), ("separable 7x7", 0),
        ("average pool", 1), ("separable 5x5", 0),
        ("skip", 3), ("average pool", 2),
        ("separable 3x3", 2), ("max pool", 1),
    ),
    reduction_concat=(3, 4, 5, 6),
)  # fmt: skip

NETWORKS = (
    network("nasnet_a_cifar", PAPER, GENOTYPE, CIFAR, n=6, filters=32),
    network("nasnet_a_imagenet", PAPER, GENOTYPE, IMAGENET, n=4, filters=22),
)
