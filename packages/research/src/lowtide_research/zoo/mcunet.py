"""Three networks for microcontrollers as msf-CNN plans them (NeurIPS 2025): chains of convolutions.

MobileNetV2 at width 0.35 (Sandler et al., CVPR 2018), MCUNetV2's network for visual wake words at 5 frames a second,
and MCUNet's for ImageNet in 320 KB (Lin et al., NeurIPS 2020 and 2021): inverted residuals, that is an expansion, a
depthwise convolution and a projection. msf-CNN leaves out what it does not plan: residual additions, normalisation,
activations and the classifier; so do these. The layers are those of its repository at fd74a7c.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide_research.zoo.builder import Net

Inverted = tuple[int, int, int, int]
"""Filters of an inverted residual, times that it expands, stride, side of its depthwise kernel."""

WIDTH_PERCENT = 35
_MOBILENET: Sequence[tuple[int, int, int, int]] = (
    (16, 1, 1, 1), (24, 6, 2, 2), (32, 6, 2, 3), (64, 6, 2, 4), (96, 6, 1, 3), (160, 6, 2, 3), (320, 6, 1, 1),
)  # fmt: skip
"""Filters at full width, times expanded, stride of the first, how many: the paper's Table 2."""

WAKE_WORDS: Sequence[Inverted] = (
    (16, 6, 2, 3), (16, 3, 1, 3), (16, 3, 1, 3), (24, 3, 2, 7), (24, 6, 1, 3), (24, 5, 1, 5), (40, 6, 2, 7),
    (40, 6, 1, 7), (48, 6, 1, 3), (48, 4, 1, 3), (96, 5, 2, 5), (96, 5, 1, 3), (96, 4, 1, 3), (160, 3, 1, 7),
)  # fmt: skip
IMAGENET: Sequence[Inverted] = (
    (16, 3, 2, 7), (16, 5, 1, 3), (16, 5, 1, 7), (16, 4, 1, 5), (24, 5, 2, 5), (24, 5, 1, 5), (24, 5, 1, 5),
    (40, 5, 2, 3), (40, 6, 1, 7), (40, 4, 1, 5), (48, 5, 1, 5), (48, 5, 1, 7), (48, 5, 1, 3), (96, 6, 2, 3),
    (96, 5, 1, 7), (96, 4, 1, 3), (160, 5, 1, 7),
)  # fmt: skip

BLOCKS = {
    "wake_words": WAKE_WORDS,
    "imagenet": IMAGENET,
    "mobilenet": tuple(
        (filters * WIDTH_PERCENT // 100, expand, 1 if again else stride, 3)
        for filters, expand, stride, count in _MOBILENET
        for again in range(count)
    ),
}


def build_mcunet(name: str, *, side: int, stem: int, blocks: str, head: int = 0, separable: int = 0) -> Net:
    """A stem of stride 2, perhaps a depthwise convolution projected to `separable`, the blocks, perhaps a head."""
    net = Net(name)
    x = net.conv(net.input("image", (1, 3, side, side)), stem, 3, 2)
    if separable:
        x = net.conv(net.depthwise(x, 3), separable, 1)
    for index, (filters, expand, stride, kernel) in enumerate(BLOCKS[blocks]):
        with net.scope(f"block{index}"):
            x = net.conv(x, x.shape[1] * expand, 1)
            x = net.conv(net.depthwise(x, kernel, stride), filters, 1)
    net.output(net.conv(x, head, 1) if head else x)
    return net
