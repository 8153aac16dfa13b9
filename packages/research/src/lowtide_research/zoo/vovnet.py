"""VoVNet (Lee et al., CVPR Workshops 2019): what each convolution of a block makes is concatenated once, at its end.

One-shot aggregation::

    x -- conv -- conv -- conv -- conv -- conv
     \\    \\      \\      \\      \\      |
      `-----`------`------`------`-- concat -- conv 1x1
"""

from __future__ import annotations

from lowtide_research.zoo.builder import Net, Value

CONVOLUTIONS = 5  # of a block, before its concat
CLASSES = 1000
STEM = (64, 64, 128)


def build_vovnet(name: str, *, batch: int, side: int, width: int, step: int, blocks: int) -> Net:
    """A stem, four stages of blocks, a classifier; stage k has `width` + k `step` filters and 2 `width` (k + 1) out."""
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
