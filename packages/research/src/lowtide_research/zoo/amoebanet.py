"""AmoebaNet-A (Real, Aggarwal, Huang, Le: Regularized Evolution, AAAI 2019, Figure 5), as HMCOS's generator has it.

The reduction cell is the published one. In the normal cell two separable 3x3 convolutions read other states than in
the authors' code (there 1 and 0, here 2 and 1), and no ReLU stands before the 1x7 convolution. That is inferred: with
the authors' inputs the network has the right ops and peaks and the wrong number of sequences (368 and 307). Of all
changes of up to two inputs of the authors' cell and of the copy of it that is common, this one alone has HMCOS's ops
(742 and 617), sequences (387 and 319), peaks, and states that a plain search needs to refute the optimum less one byte
(3,237 and 43; `packages/research/tests/zoo/test_published.py`).
"""

from __future__ import annotations

from lowtide_research.zoo.cells import CIFAR, IMAGENET, Genotype, network

PAPER = "AmoebaNet-A: Real et al., Regularized Evolution for Image Classifier Architecture Search, AAAI 2019"

GENOTYPE = Genotype(
    normal=(
        ("average pool", 0), ("max pool", 0),
        ("separable 3x3", 2), ("skip", 1),
        ("skip", 0), ("average pool", 1),
        ("separable 3x3", 1), ("separable 5x5", 2),
        ("average pool", 5), ("separable 3x3", 0),
    ),
    normal_concat=(3, 4, 6),
    reduction=(
        ("average pool", 0), ("separable 3x3", 1),
        ("max pool", 0), ("separable 7x7", 2),
        ("separable 7x7", 0), ("average pool", 1),
        ("max pool", 1), ("max pool", 0),
        ("1x7 then 7x1", 0), ("separable 3x3", 5),
    ),
    reduction_concat=(3, 4, 6),
)  # fmt: skip

NETWORKS = (
    network("amoebanet_a_cifar", PAPER, GENOTYPE, CIFAR, n=6, filters=36),
    network("amoebanet_a_imagenet", PAPER, GENOTYPE, IMAGENET, n=4, filters=25),
)
