"""Steps whose sibling products run as one: that they may, and the merged step, made from what the plan lists.

Nothing here is shared with the package that finds and merges them. What is listed is taken as a claim about the user's
step. Which op reads what, and whether shapes and labels agree, is looked up there for each tensor that goes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowtide.errors import VerificationError
from lowtide.fission_plan import PlanMerge
from lowtide.graph import Graph, Kind, Op, Tensor

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_merges(graph: Graph, merges: Sequence[PlanMerge]) -> Graph:
    """The step with these products as one, one merge after the other. Raises `VerificationError`: ``fission``: the ops
    are not what they are said to be, or not the only readers of what goes."""
    for merge in merges:
        graph = _Claim(graph, merge).checked().graph()
    return graph


def _need(holds: bool, why: str) -> None:
    if not holds:
        raise VerificationError("fission", why)


def _sides(op: Op) -> tuple[list[list[str]], list[list[str]]]:
    left, arrow, right = str(op.attributes.get("labels", "")).partition("->")
    _need(bool(arrow), f"{op.label} has no labels")
    return [words.split() for words in left.split(",")], [words.split() for words in right.split(",")]


class _Claim:
    """One merge, on the step as the merges before it left it."""

    def __init__(self, graph: Graph, merge: PlanMerge) -> None:
        self.step, self.merge = graph, merge
        columns = (merge.products, merge.gradients, merge.updates, merge.backs, merge.turns, merge.unturns, merge.sums)
        named = [v for column in columns for v in column]
        _need(len(set(named)) == len(named), "an op is named twice")
        missing = [v for v in named if v not in graph.op_by_id]
        _need(not missing, f"ops {missing[:5]} are not there")
        self.gone = set(named)
        (self.products, self.gradients, self.updates, self.backs, self.turns, self.unturns, self.sums) = (
            [graph.op_by_id[v] for v in column] for column in columns
        )
        self.count = len(self.products)
        self.size = {t.id: t.size for t in graph.tensors}

    def checked(self) -> _Claim:
        """Itself, if all holds."""
        n = self.count
        _need(n >= 2 and len(self.gradients) == n and len(self.updates) == n, "siblings are two or more, each updated")
        _need(all(len(ops) in (0, n) for ops in (self.backs, self.turns, self.unturns)), "some siblings lack an op")
        for kind, ops in (("einsum", self.products), ("einsum", self.gradients), ("einsum", self.backs),
                          ("update", self.updates), ("permute", self.turns), ("permute", self.unturns)):  # fmt: skip
            self._check_column(kind, ops)
        for i in range(n):
            self._check_sibling(i)
        self._check_sums()
        waits = [op.label for op in self.step.ops if op.id not in self.gone and not self.gone.isdisjoint(op.after)]
        _need(not waits, f"{waits[:1]} is to run after one of them")
        return self

    def _check_column(self, kind: str, ops: Sequence[Op]) -> None:
        for op in ops:
            _need(op.type == kind and len(op.outputs) == 1, f"{op.label} is no {kind}")
            _need(op.attributes == ops[0].attributes and not op.after, f"{op.label} is not as its siblings are")
            _need(not op.attributes.get("random") and op.overwrites is None, f"{op.label} does more than compute")
        if not ops:
            return
        for tensors in zip(*(op.inputs + op.outputs for op in ops), strict=True):
            shapes = {(self.step.tensor_by_id[t].shape, self.step.tensor_by_id[t].dtype, self.size[t]) for t in tensors}
            _need(len(shapes) == 1 and None not in next(iter(shapes)), f"siblings of {ops[0].label} differ in shape")
        reads, writes = _sides(ops[0])
        if kind == "einsum":
            said = ",".join("".join(words) for words in reads) + "->" + "".join(writes[0])
            letters = all(len(word) == 1 and word in _LETTERS for words in (*reads, *writes) for word in words)
            _need(letters and said == ops[0].attributes.get("equation"), f"{ops[0].label} is not what its labels say")
        elif kind == "permute":
            turned = [reads[0][d] for d in ops[0].attributes.get("permutation", ())]
            _need(turned == writes[0] and len(set(turned)) == len(turned), f"{ops[0].label} is no transpose")
        else:
            self._check_elements(ops[0])

    def _check_elements(self, op: Op) -> None:
        reads, writes = _sides(op)
        shapes = {self.step.tensor_by_id[t].shape for t in (*op.inputs, *op.outputs)}
        alike = all(words == writes[0] for words in reads) and len(set(writes[0])) == len(writes[0])
        _need(alike and "." not in writes[0] and len(shapes) == 1, f"{op.label} is not element by element")

    def _readers(self, tensor: int) -> list[int]:
        """Ops that read a tensor, each as often as it does."""
        return [v for v in self.step.consumers.get(tensor, ()) for t in self.step.op_by_id[v].inputs if t == tensor]

    def _check_sibling(self, i: int) -> None:
        """Operands of one sibling's ops, and that no other op reads them."""
        step, product, gradient, update = self.step, self.products[i], self.gradients[i], self.updates[i]
        x = self.products[0].inputs[0]
        (w, y), (d, dw) = ((op.inputs[-1], op.outputs[0]) for op in (product, gradient))
        new = update.outputs[0]
        back = [self.backs[i].id] if self.backs else []
        _need(product.inputs == (x, w) and gradient.inputs == (x, d), f"{product.label} has another operand")
        _need(update.inputs == (w, dw), f"{update.label} is no update of what {product.label} reads")
        if self.backs:
            _need(self.backs[i].inputs == (d, w), f"{self.backs[i].label} is no gradient of the operand")
        if self.turns:
            _need(self.turns[i].inputs == (y,), f"{self.turns[i].label} does not read {product.label}")
            _need(self._readers(y) == [self.turns[i].id], f"{product.label} is read by others")
        if self.unturns:
            _need(self.unturns[i].outputs == (d,), f"{self.unturns[i].label} does not make the gradient")
        expected = {w: {product.id, update.id, *back}, d: {gradient.id, *back}, dw: {update.id}, new: set[int]()}
        for t, readers in expected.items():
            found = self._readers(t)
            _need(set(found) == readers and len(found) == len(readers), f"tensor {t} is read by others, too")
        kinds = {w: Kind.INPUT, y: Kind.ACTIVATION, d: Kind.ACTIVATION, dw: Kind.ACTIVATION, new: Kind.OUTPUT}
        for t, kind in kinds.items():
            tensor = step.tensor_by_id[t]
            _need(tensor.kind is kind and tensor.alias_of is None, f"tensor {t} is no {kind.value} of its own")
        for a, b in ((y, d), (w, dw), (w, new)):
            _need(step.tensor_by_id[a].shape == step.tensor_by_id[b].shape, f"tensors {a} and {b} differ in shape")

    def _check_sums(self) -> None:
        """That the sums add up each gradient of the operand once, and hand on nothing else but the last one's."""
        parts = [op.outputs[0] for op in self.backs]
        _need(bool(parts) == bool(self.sums), "gradients of the operand are added up nowhere")
        own = sorted(self.sums, key=lambda op: self.step.index_of[op.id])
        _need(self.sums == own, "sums are not in file order")
        inner = [op.outputs[0] for op in self.sums[:-1]]
        read = [t for op in self.sums for t in op.inputs]
        for op in self.sums:
            _need(op.type == "add" and not op.after and op.overwrites is None, f"{op.label} is no sum")
            self._check_elements(op)
        for t in (*parts, *inner):
            own = self.step.tensor_by_id[t].kind is Kind.ACTIVATION
            _need(own and read.count(t) == 1 and len(self._readers(t)) == 1, f"tensor {t} is not added up once")
        self.others = [t for t in read if t not in {*parts, *inner}]
        above = {t: op.outputs[0] for op in self.sums for t in op.inputs}
        for t in parts:
            while t in above:
                t = above[t]
            _need(t == self.sums[-1].outputs[0], "sums are not of one result")

    def graph(self) -> Graph:
        """The step with the wider ops."""
        wider = _Wider(self)
        wider.forward()
        wider.backward()
        _need([op.id for op in wider.ops] == self.merge.ops, "new ops are not those of the next free ids")
        _need([t.id for t in wider.tensors] == self.merge.tensors, "new tensors are not those of the next free ids")
        kept = [op for op in self.step.ops if op.id not in self.gone]
        place = {op.id: self.step.index_of[op.id] for op in kept} | wider.place
        ops = _in_turn([*kept, *wider.ops], place)
        there = {t for op in ops for t in (*op.inputs, *op.outputs)}
        before = {t for op in self.step.ops for t in (*op.inputs, *op.outputs)}
        tensors = [t for t in self.step.tensors if t.id in there or t.id not in before]
        return replace(self.step, tensors=(*tensors, *wider.tensors), ops=tuple(ops), file=None, file_order=())


class _Wider:
    """New ops and tensors, in turn; `place`: of each new op the position of the first op that it replaces."""

    def __init__(self, claim: _Claim) -> None:
        self.claim, self.step, self.count = claim, claim.step, claim.count
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.place: dict[int, int] = {}
        columns = (claim.products[:1], claim.gradients[:1], claim.backs[:1])
        words = [side for ops in columns for op in ops for sides in _sides(op) for side in sides]
        used = {word for side in words for word in side}
        free = [letter for letter in _LETTERS if letter not in used]
        _need(bool(free), "no letter is left")
        self.letter = free[0]
        (x, _), (y,) = _sides(claim.products[0])
        self.at = next((i for i, word in enumerate(y) if word not in x), len(y))

    def forward(self) -> None:
        """The product, and what takes its result apart."""
        claim = self.claim
        first, last = claim.products[0], claim.turns or claim.products
        self.operand, self.weights = first.inputs[0], self._tensor(first.inputs[1], 0)
        y = self._tensor(first.outputs[0], self.at)
        self._product(claim.products, (self.operand, self.weights), y, (None, 0, self.at))
        self._glue("unstack", claim.turns, last, (y,), [op.outputs[0] for op in last])

    def backward(self) -> None:
        """What puts gradients together, the gradients, the update."""
        claim = self.claim
        gradients, updates = claim.gradients, claim.updates
        d = self._tensor(gradients[0].inputs[1], self.at)
        parts = [op.inputs[0] for op in claim.unturns] or [op.inputs[1] for op in gradients]
        self._glue("stack", claim.unturns, claim.unturns or gradients, parts, (d,))
        if claim.backs:
            self._sum(d)
        dw = self._tensor(gradients[0].outputs[0], 0)
        self._product(gradients, (self.operand, d), dw, (None, self.at, 0))
        new = self._tensor(updates[0].outputs[0], 0)
        words = " ".join(_LETTERS[: len(self.tensors[-1].shape or ())])
        how = {**updates[0].attributes, "labels": f"{words}, {words} -> {words}"}
        self._op("update", updates, updates, (self.weights, dw), (new,), how)

    def _sum(self, gradient: int) -> None:
        """The operand's gradient, and what else is added to it."""
        backs, sums, others = self.claim.backs, self.claim.sums, self.claim.others
        total = sums[-1].outputs[0]
        at = self._tensor(backs[0].outputs[0], None) if others else total
        self._product(backs, (gradient, self.weights), at, (self.at, 0, None), [] if others else sums)
        for k, other in enumerate(others):
            last = k + 1 == len(others)
            of, result = (sums[k:], total) if last else (sums[k : k + 1], self._tensor(total, None))
            self._op("add", of, of[:1], (other, at), (result,), dict(of[0].attributes))
            at = result

    def _tensor(self, like: int, wide: int | None) -> int:
        """One like another, of all siblings along a new dimension."""
        old = self.step.tensor_by_id[like]
        shape, size = old.shape or (), old.size
        if wide is not None:
            shape, size = (*shape[:wide], self.count, *shape[wide:]), size * self.count
        number = max(self.step.tensor_by_id) + 1 + len(self.tensors)
        self.tensors.append(
            replace(old, id=number, size=size, name=f"{old.name} and {self.count - 1} more", shape=shape)
        )
        return number

    def _op(
        self, kind: str, of: Sequence[Op], works: Sequence[Op], inputs: Sequence[int], outputs: Sequence[int],
        how: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """An op that replaces others, and computes what some of them do."""
        number = max(self.step.op_by_id) + 1 + len(self.ops)
        flops = None if any(op.flops is None for op in works) else sum(op.flops or 0 for op in works)
        name = f"{of[0].name} and {self.count - 1} more" if works else f"{kind} of {of[0].name}"
        self.ops.append(
            Op(number, tuple(inputs), tuple(outputs), name, kind,
               sum(op.workspace for op in of), flops=flops, attributes=how)
        )  # fmt: skip
        self.place[number] = min(self.step.index_of[op.id] for op in of)

    def _product(
        self, of: Sequence[Op], inputs: Sequence[int], output: int, wide: Sequence[int | None], more: Sequence[Op] = ()
    ) -> None:
        reads, writes = _sides(of[0])
        sides = [
            words if at is None else [*words[:at], self.letter, *words[at:]]
            for words, at in zip((*reads, *writes), wide, strict=True)
        ]
        a, b, c = (" ".join(words) for words in sides)
        how = {"labels": f"{a}, {b} -> {c}", "equation": f"{a},{b}->{c}".replace(" ", "")}
        self._op("einsum", [*of, *more], of, inputs, (output,), {**of[0].attributes, **how})

    def _glue(
        self, kind: str, turns: Sequence[Op], of: Sequence[Op], inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """What takes apart or puts together, and transposes where ops did."""
        apart = kind == "unstack"
        rank = len(self.step.tensor_by_id[(outputs if apart else inputs)[0]].shape or ())
        order = tuple([int(d) for d in turns[0].attributes["permutation"]]) if turns else tuple(range(rank))
        before = list(_LETTERS[:rank])
        after = [before[d] for d in order]
        wide, single = (before, after) if apart else (after, before)
        wide = [*wide[: self.at], ".", *wide[self.at :]]
        many = ", ".join([" ".join(single)] * self.count)
        labels = f"{' '.join(wide)} -> {many}" if apart else f"{many} -> {' '.join(wide)}"
        self._op(kind, of, (), inputs, outputs, {"labels": labels, "permutation": order, "dimension": self.at})


def _in_turn(ops: Sequence[Op], place: Mapping[int, int]) -> list[Op]:
    """Of what can come next always the op of the first place, then of the least id."""
    maker = {t: op.id for op in ops for t in op.outputs}
    waits = {op.id: {maker[t] for t in op.inputs if t in maker} | set(op.after) for op in ops}
    behind: dict[int, list[Op]] = {}
    for op in ops:
        for v in waits[op.id]:
            behind.setdefault(v, []).append(op)
    left = {v: len(before) for v, before in waits.items()}
    ready = [(place[op.id], op.id, op) for op in ops if not left[op.id]]
    heapq.heapify(ready)
    turn: list[Op] = []
    while ready:
        *_, op = heapq.heappop(ready)
        turn.append(op)
        for reader in behind.get(op.id, ()):
            left[reader.id] -= 1
            if left[reader.id] == 0:
                heapq.heappush(ready, (place[reader.id], reader.id, reader))
    _need(len(turn) == len(ops), "merged ops wait for each other")
    return turn
