"""VoVNet (Lee et al., CVPR Workshops 2019): what each convolution of a block makes is concatenated once, at its end.

One-shot aggregation::

    x -- conv -- conv -- conv -- conv -- conv
     \\    \\      \\      \\      \\      |
      `-----`------`------`------`-- concat -- conv 1x1
"""

from __future__ import annotations

from lowtide.errors import InputError
from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.network import Network, Parameter

CONVOLUTIONS = 5  # of a block, before its concat
CLASSES = 1000
STEM = (64, 64, 128)


def build_vovnet(name: str, *, batch: int, side: int, width: int, step: int, blocks: int) -> Net:
    """A stem, four stages of blocks, a classifier; stage k has `width` + k `step` filters and 2 `width` (k + 1) out.
    Raises `InputError`: `side` is no multiple of 32."""
    if side % 32:
        raise InputError(f"side is {side}; use a multiple of 32", f"zoo:{name}")
    net = Net(name)
    x = net.input("image", (batch, 3, side, side))
    with net.scope("stem"):
        for filters, stride in zip(STEM, (2, 1, 2), strict=True):
            x = net.relu(net.conv(x, filters, 3, stride))
    for stage in range(4):
        x = net.max_pool(x, 3, 2) if stage else x
        for block in range(blocks if stage > 1 else 1):
            with net.scope(f"stage{stage + 2}/block{block}"):
                x = _block(net, x, width + stage * step, 2 * width * (stage + 1), again=block > 0)
    with net.scope("head"):
        net.output(net.gemm(net.squeeze(net.global_average_pool(x), (2, 3)), CLASSES))
    return net


def _block(net: Net, x: Value, filters: int, wide: int, *, again: bool) -> Value:
    values = [x]
    for _ in range(CONVOLUTIONS):
        values.append(net.relu(net.conv(values[-1], filters, 3)))
    y = net.relu(net.conv(net.concat(values), wide, 1))
    return net.add(y, x) if again else y


NETWORKS = (
    Network(
        "vovnet_39",
        "VoVNet-39: Lee et al., An Energy and GPU-Computation Efficient Backbone Network, CVPR Workshops 2019",
        "float32, batch 1, 224x224, batch normalisation folded, the third stem convolution of stride 2, the input of a "
        "block added to its output where both are of equal size",
        build_vovnet,
        {
            "batch": Parameter(1, 1, 1024, "images"),
            "side": Parameter(224, 32, 4096, "height and width of the image, a multiple of 32"),
            "width": Parameter(128, 1, 1024, "filters of the first stage's convolutions"),
            "step": Parameter(32, 0, 1024, "filters more in each later stage"),
            "blocks": Parameter(2, 1, 16, "blocks of the last two stages"),
        },
    ),
)
