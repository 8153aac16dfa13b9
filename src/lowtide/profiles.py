"""When everything that a plan places is in memory, and how much that is at each step: what a picture of it needs."""

from __future__ import annotations

import msgspec

Steps = tuple[int, int]
"""Steps ``[first, end)`` of an order."""


class PlanProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes at each step, and the steps at which each storage is live. Sizes are bytes, ids are the plan's.

    Without moves a storage goes by its root tensor: the one that is an alias of none; a part of a storage that is live
    by itself, by the smallest tensor in it. It is live in steps ``starts[i]`` to ``ends[i] - 1``, from 0 if from before
    the first step, and up to the last step if to the end.
    With moves `Plan.residency` says where and when, and `bytes`, `storages`, `starts` and `ends` are empty.

    Attributes
    ----------
    own_order_bytes
        Footprint of each step of the user's graph in its own order.
    bytes
        Footprint of each step of the plan's order.
    storages, starts, ends
        Those tensors, each with its storage's life.
    sizes
        Bytes of those storages that are larger than their tensor, or parts smaller than it, by its id.
    lows
        Bytes from that tensor's start to a part's, by its id, where those are not 0.
    used
        Steps from the first use of a storage to after its last, by its root's id, if it is live for longer;
        ``[0, 0]`` if no op uses it.
    workspaces
        Bytes that ops need only while they run, by op id; ops that need none are left out.
    """

    own_order_bytes: list[int]
    bytes: list[int] = []
    storages: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    sizes: dict[str, int] = {}
    lows: dict[str, int] = {}
    used: dict[str, Steps] = {}
    workspaces: dict[str, int] = {}
