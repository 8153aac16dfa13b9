"""PNASNet-5 (Liu et al.: Progressive Neural Architecture Search, ECCV 2018): one cell for both strides.

Where the published cell has the identity, this one has a 1x1 convolution without ReLU before it, at both strides, as
HMCOS's generator makes it. That is inferred: it gives that network's ops (916 and 750) and sequences (505 and 414).
"""

from __future__ import annotations

from lowtide_research.zoo.cells import CIFAR, IMAGENET, Genotype, network

PAPER = "PNASNet-5: Liu et al., Progressive Neural Architecture Search, ECCV 2018"

_CELL = (
    ("separable 5x5", 0), ("max pool", 0),
    ("separable 7x7", 1), ("max pool", 1),
    ("separable 5x5", 1), ("separable 3x3", 1),
    ("separable 3x3", 4), ("max pool", 1),
    ("separable 3x3", 0), ("1x1", 1),
)  # fmt: skip
_CONCAT = (2, 3, 4, 5, 6)

GENOTYPE = Genotype(_CELL, _CONCAT, _CELL, _CONCAT)

NOTE = " (stem and head as HMCOS's networks; PNASNet is not in its paper)"

NETWORKS = (
    network("pnasnet_5_cifar", PAPER, GENOTYPE, CIFAR, n=6, filters=32, note=NOTE),
    network("pnasnet_5_imagenet", PAPER, GENOTYPE, IMAGENET, n=4, filters=24, note=NOTE),
)
