"""The ops that replace sibling products and their gradients and updates: `lowtide.transform.siblings` inserts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from lowtide.graph import Graph, Op, Tensor
from lowtide.ops.labels import UNTILED, parsed
from lowtide.ops.node import NoForm

SPLIT, JOIN = "unstack", "stack"
"""Types of the ops that take the results apart and put the gradients together."""


class NoMerge(Exception):
    """Why products stay separate, for people."""


@dataclass(frozen=True)
class Site:
    """Siblings with all dependent ops, each in the order of the products."""

    # products, gradients, updates: the products, the gradients of their weights, and the updates of these.
    products: tuple[Op, ...]
    gradients: tuple[Op, ...]
    updates: tuple[Op, ...]
    backs: tuple[Op, ...]  # gradients of the operand; empty if they have no consumer
    # turns, unturns: transposes of the results, and those that make the gradients; empty unless they are all the same.
    turns: tuple[Op, ...]
    unturns: tuple[Op, ...]
    # The sums of the operand's gradients, the last one last; `others`: their other operands, in order.
    sums: tuple[Op, ...]
    others: tuple[int, ...]

    @property
    def gone(self) -> list[Op]:
        """Ops that are not there any more."""
        every = (self.products, self.gradients, self.updates, self.backs, self.turns, self.unturns, self.sums)
        return [op for ops in every for op in ops]


def _words(op: Op) -> list[str]:
    """Labels of both operands of a product and of its result, a letter a dimension. Raises `NoMerge`."""
    try:
        reads, writes = parsed(str(op.attributes.get("labels")))
    except NoForm as error:
        raise NoMerge(f"{op.label}: {error}") from None
    words = [word for side in (*reads, *writes) for word in side]
    if len(reads) != 2 or len(writes) != 1 or UNTILED in words or any(len(w) != 1 for w in words):
        raise NoMerge(f"labels of {op.label} are not a product's of two operands, a letter a dimension")
    sides = ["".join(side) for side in (*reads, *writes)]
    if op.attributes.get("equation") != _equation(sides):
        raise NoMerge(f"{op.label} has no equation that says what its labels say")
    return sides


def _equation(sides: Sequence[str]) -> str:
    return f"{sides[0]},{sides[1]}->{sides[2]}"


class Wider:
    """New ops and tensors of a site, in turn. `replaces`: the former ops of each new op; `holds`: the former tensors in
    each new tensor; `stacked`: the same where each is contiguous. Raises `NoMerge`."""

    def __init__(self, graph: Graph, site: Site) -> None:
        self.graph, self.site, self.count = graph, site, len(site.products)
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.replaces: dict[int, tuple[Op, ...]] = {}
        self.holds: dict[int, tuple[int, ...]] = {}
        self.stacked: dict[int, tuple[int, ...]] = {}
        self.sides = {op.id: _words(op) for op in (site.products[0], site.gradients[0], *site.backs[:1])}
        x, _, y = self.sides[site.products[0].id]
        self.at = next((d for d, letter in enumerate(y) if letter not in x), len(y))
        used = {letter for sides in self.sides.values() for side in sides for letter in side}
        self.letter = next((letter for letter in ascii_lowercase if letter not in used), "")
        if not self.letter:
            raise NoMerge("no letter is left for what lies side by side")

    def build(self) -> None:
        """All of them: the product and what takes its result apart, what puts the gradients together, those of the
        operand and of the weights, the update."""
        site, at = self.site, self.at
        x = site.products[0].inputs[0]
        results, parts = [op.outputs[0] for op in site.products], [op.inputs[1] for op in site.gradients]
        weights, y = self._wide([op.inputs[1] for op in site.products], 0), self._wide(results, at)
        self._product(site.products, (x, weights), y, (None, 0, at))
        self._glue(SPLIT, site.turns or site.products, (y,), [op.outputs[0] for op in site.turns] or results)
        dy = self._wide(parts, at)
        self._glue(JOIN, site.unturns or site.gradients, [op.inputs[0] for op in site.unturns] or parts, (dy,))
        if site.backs:
            self._operand(dy, weights)
        dw = self._wide([op.outputs[0] for op in site.gradients], 0)
        self._product(site.gradients, (x, dy), dw, (None, at, 0))
        updated = self._wide([op.outputs[0] for op in site.updates], 0)
        words = " ".join(ascii_lowercase[: len(self.tensors[-1].shape or ())])
        self._op(site.updates, (weights, dw), (updated,), labels=f"{words}, {words} -> {words}")
        self.stacked |= {t: self.holds[t] for t in (weights, updated)}

    def _operand(self, dy: int, weights: int) -> None:
        """Its gradient, and the sum with what else it is the sum of."""
        site = self.site
        total = site.sums[-1].outputs[0]
        if not site.others:
            self._product((*site.backs, *site.sums), (dy, weights), total, (self.at, 0, None), alike=self.count)
            return
        own = self.graph.tensor_by_id[site.backs[0].outputs[0]]
        one = self._tensor(own.size, own, own.shape or (), [op.outputs[0] for op in site.backs])
        self._product(site.backs, (dy, weights), one, (self.at, 0, None))
        for k, other in enumerate(site.others):
            last = k == len(site.others) - 1
            made = total if last else self._tensor(own.size, own, own.shape or (), [total])
            self._op((site.sums[k],) if not last else site.sums[k:], (other, one), (made,), alike=1)
            one = made

    def _tensor(self, size: int, like: Tensor, shape: tuple[int, ...], holds: Sequence[int]) -> int:
        number = max(self.graph.tensor_by_id) + 1 + len(self.tensors)
        name = f"{like.name} and {self.count - 1} more"
        self.tensors.append(Tensor(number, size, like.kind, name, shape, like.dtype))
        self.holds[number] = tuple(holds)
        return number

    def _wide(self, ids: Sequence[int], at: int) -> int:
        """A tensor of several, stacked along a new dimension."""
        first = self.graph.tensor_by_id[ids[0]]
        shape = first.shape or ()
        return self._tensor(first.size * self.count, first, (*shape[:at], self.count, *shape[at:]), ids)

    def _product(
        self, of: Sequence[Op], inputs: Sequence[int], output: int, wider: Sequence[int | None], alike: int = 0
    ) -> None:
        """Products as one; `wider`: of each operand and the result the dimension that is new, or None."""
        sides = [
            words if d is None else f"{words[:d]}{self.letter}{words[d:]}"
            for words, d in zip(self.sides[of[0].id], wider, strict=True)
        ]
        labels = f"{' '.join(sides[0])}, {' '.join(sides[1])} -> {' '.join(sides[2])}"
        self._op(of, inputs, (output,), alike=alike, labels=labels, equation=_equation(sides))

    def _glue(self, kind: str, of: Sequence[Op], inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """What takes results apart or puts gradients together, transposed where they were."""
        turned = of is self.site.turns or of is self.site.unturns
        rank = len(self.graph.tensor_by_id[(outputs if kind == SPLIT else inputs)[0]].shape or ())
        permutation = tuple(of[0].attributes["permutation"]) if turned else tuple(range(rank))
        letters = ascii_lowercase[:rank]
        permuted = [letters[d] for d in permutation]
        wide = [*(letters if kind == SPLIT else permuted)]
        wide.insert(self.at, UNTILED)
        each = " ".join(permuted if kind == SPLIT else letters)
        many, one = ", ".join([each] * self.count), " ".join(wide)
        labels = f"{one} -> {many}" if kind == SPLIT else f"{many} -> {one}"
        self._op(of, inputs, outputs, kind, labels=labels, permutation=permutation, dimension=self.at)

    def _op(
        self, of: Sequence[Op], inputs: Sequence[int], outputs: Sequence[int], kind: str = "", alike: int = 0,
        **attributes: Any,
    ) -> None:  # fmt: skip
        """An op that replaces others, of the first one's type or with a kind of its own; `alike`: how many of them
        compute what it computes, if not all."""
        number = max(self.graph.op_by_id) + 1 + len(self.ops)
        computed = [op.flops for op in of[: alike or len(of)]]
        flops = None if None in computed else sum(f or 0 for f in computed)
        name = f"{of[0].name} and {self.count - 1} more" if not kind else f"{kind} of {of[0].name}"
        own = {} if kind else dict(of[0].attributes)
        self.ops.append(
            Op(number, tuple(inputs), tuple(outputs), name, kind or of[0].type, sum(op.workspace for op in of),
               flops=0 if kind else flops, attributes={**own, **attributes})
        )  # fmt: skip
        self.replaces[number] = tuple(of)
