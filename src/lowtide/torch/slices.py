"""A region of a step run for some rows at a time: a function of its own in the step's source, a loop in it.

::

    def rows_1f3c(hidden, weight, target, one):
        total = ...                                    what hangs on all rows and is known before them
        made = aten.empty_strided.default(...)         results of rows: slices are written where they belong
        added = aten.zero_.default(...)                results that are sums over rows: added to in place
        for first in range(0, 2048, 256):
            end = min(first + 256, 2048)
            ...                                        the ops in file order, each tensor dropped after its last reader
        aten.div_.Tensor(loss, total)                  a mean's divisor is that of all rows
        return made, added

Rows of results are computed from the same rows of operands; a kernel may sum within a row in another order where there
are fewer rows, and sums over rows are added up part by part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from lowtide.graph import Graph
from lowtide.read.aten.trace import Ref
from lowtide.torch.along import Along, part_seen
from lowtide.torch.generate import expression
from lowtide.torch.program import Action, Body, Call, Program, Word, instead_of
from lowtide.torch.readings import BATCH_SIZE
from lowtide.torch.rows import Operand, Region, Row, is_total_weight

_INTO = {"mm": "aten.addmm_.default", "bmm": "aten.baddbmm_.default"}  # products that are added to what is there
_MEAN, _SUM = 1, 2  # how torch numbers reductions of losses


def sliced(program: Program, graph: Graph, regions: Sequence[Region], parts: int) -> Program:
    """The program with regions, none of which has an op of another alone, each as one op that runs in that many
    parts. Regions of equal ops have one function, under the names that the first of them has. `graph`: the
    program's. `parts`: at least 1; the last one may be smaller."""
    return one_by_one(program, graph, regions, parts)[0]


def one_by_one(
    program: Program, graph: Graph, regions: Sequence[Region], parts: int
) -> tuple[Program, tuple[Region, ...]]:
    """The same, and each region as it stood in what the cuts before it had left."""
    before, names = graph.predecessors, [action.name for action in program.actions]
    stood: list[Region] = []
    for region in regions:
        at = {action.name: k for k, action in enumerate(program.actions)}
        here = replace(region, ops=tuple([replace(row, index=at[names[row.index]]) for row in region.ops]))
        program, before = _with_one(program, before, here, parts)
        stood.append(here)
    return program, tuple(stood)


def _with_one(
    program: Program, before: Sequence[Collection[int]], region: Region, parts: int
) -> tuple[Program, list[set[int]]]:
    """With one region, and for each op then the positions of those that must run before it."""
    body, lines = body_of(program, region, parts)
    inside = body.actions
    digest = hashlib.sha256(_plainly(lines, region, inside).encode()).hexdigest()[:12]
    name = f"rows_{digest}"
    asked = ("h",) if any("h[" in line for line in lines) else ()
    source = "\n".join([f"def {name}({', '.join([*region.given, *asked])}):", *lines, ""])
    body = program.bodies.get(name, replace(body, source=source))
    call = Call(f"body.{name}", (*(Ref(n) for n in region.given), *map(Word, asked)))
    taken = sum(action.call.target == call.target for action in program.actions)
    written = tuple(dict.fromkeys([n for inner in inside for n in inner.writes]))
    action = Action(f"{name}_{taken}" if taken else name, call, region.made, several=True, writes=written)
    order = _order(len(program.actions), before, region)
    actions = tuple([action if k is None else program.actions[k] for k in order])
    result = replace(program, actions=actions, bodies={**program.bodies, name: body})
    place = {
        **dict.fromkeys(region.indices, order.index(None)),
        **{k: at for at, k in enumerate(order) if k is not None},
    }
    members = (*region.indices, *region.recomputed)
    behind = [{place[u] for k in (members if old is None else (old,)) for u in before[k]} - {at}
              for at, old in enumerate(order)]  # fmt: skip
    for at, later in enumerate(actions):
        if at > order.index(None) and not set(later.writes).isdisjoint(region.given):
            behind[at].add(order.index(None))
    return result, behind


def body_of(program: Program, region: Region, parts: int) -> tuple[Body, list[str]]:
    """The function of a region in that many parts, as yet without source; and the lines below its first."""
    rows = -(-region.rows // parts)
    lines, live = _Writer(program, region, rows).lines()
    full_bytes = tuple([_full_bytes(program, region, row) for row in region.ops])
    inside = tuple([program.actions[row.index] for row in region.ops])
    return Body("", inside, -(-region.rows // rows), live, full_bytes), lines


def _plainly(lines: Sequence[str], region: Region, inside: Sequence[Action]) -> str:
    """The lines with numbers in place of the names of tensors."""
    names = [*region.given, *(n for action in inside for n in action.outputs if n is not None)]
    number = {name: f"t{k}" for k, name in enumerate(dict.fromkeys(names))}
    ahead = f"{', '.join(number[name] for name in region.given)}\n"
    return ahead + re.sub(r"(?<![.\w])(all_|part_)?(\w+)(?![.\w])", lambda m: _numbered(m, number), "\n".join(lines))


def _numbered(match: re.Match[str], number: Mapping[str, str]) -> str:
    word, ahead, name = match.group(0), match.group(1) or "", match.group(2)
    return number.get(word) or (ahead + number[name] if name in number else word)


def _full_bytes(program: Program, region: Region, row: Row) -> int:
    """What each part of an op moves, however few its rows are."""
    read = {operand.root for operand in row.operands if operand.along is None and operand.root in region.given}
    sums = [name for name, dim in zip(program.actions[row.index].outputs, row.dims, strict=True) if dim is None]
    forms = program.forms
    return sum(forms[name].extent_bytes for name in read) + 2 * sum(
        forms[n].extent_bytes for n in sums if n is not None
    )


def _order(count: int, before: Sequence[Collection[int]], region: Region) -> list[int | None]:
    """Positions of the actions with None in place of the region's, where it may first stand: what it reads before it,
    what reads it after."""
    inside = set(region.indices)
    needed = {u for k in region.recomputed for u in before[k]}
    for k in reversed(range(count)):
        if k in inside or k in needed:
            needed.update(before[k])
    first = min(inside)
    rest = [k for k in range(first, count) if k not in inside]
    return [*range(first), *(k for k in rest if k in needed), None, *(k for k in rest if k not in needed)]


@dataclass
class _Writer:
    """Writes the function of a region, and counts what it takes in addition to its results."""

    program: Program
    region: Region
    rows: int
    text: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    live: dict[str, int] = field(default_factory=dict)
    places: dict[str, Along | None] = field(default_factory=dict)
    ahead: int = 0
    heights: list[int] = field(default_factory=list)

    def lines(self) -> tuple[list[str], tuple[int, ...]]:
        """The lines below its first, and what is live while each op runs, in addition to its results."""
        actions = [self.program.actions[row.index] for row in self.region.ops]
        for row, action in zip(self.region.ops, actions, strict=True):
            self.places.update({o: d for o, d in zip(action.outputs, row.dims, strict=True) if o is not None})
        last: dict[str, int] = {}
        for k, row in enumerate(self.region.ops):
            last.update({operand.root: k for operand in row.operands})
        self._ahead(actions)
        size = self.region.rows
        self.text += [f"    for first_row in range(0, {size}, {self.rows}):"]
        self.text += [f"        end_row = min(first_row + {self.rows}, {size})"]
        for k, (row, action) in enumerate(zip(self.region.ops, actions, strict=True)):
            self._op(row, action)
            for name in [n for n in self.live if last.get(n, -1) <= k]:
                self.text.append(f"        del {name}")
                del self.live[name]
        self.text += [*self.behind, f"    return [{', '.join(map(self._full, self.region.made))}]"]
        return self.text, tuple([max(self.ahead, height) for height in self.heights])

    def _ahead(self, actions: Sequence[Action]) -> None:
        """What precedes the loop: results, and the number of rows that count."""
        for row, action in zip(self.region.ops, actions, strict=True):
            name = action.call.target.split(".")[1]
            if name == "nll_loss_forward":
                self._total(action)
            for output, dim in zip(action.outputs, row.dims, strict=True):
                if (
                    output is None
                    or output not in self.region.made
                    or (name == "nll_loss_forward" and output == action.outputs[1])
                ):
                    continue
                form = self.program.forms[output]
                options = f'dtype=torch.{form.dtype}, device=torch.device("{_device(form.device)}")'
                empty = f"aten.empty_strided.default({list(form.shape)}, {list(form.strides)}, {options})"
                made = self._full(output)
                self.text.append(f"    {made} = {empty if dim is not None else f'aten.zero_.default({empty})'}")

    def _full(self, name: str) -> str:
        """Name of all rows of a result: its own, if no op of the region reads it."""
        read = any(operand.root == name for row in self.region.ops for operand in row.operands)
        return f"all_{name}" if read and self.places.get(name) is not None else name

    def _total(self, action: Action) -> None:
        """The number of targets that are not left out, as torch counts it: a number of the scores' type."""
        target, ignored = action.call.args[1], action.call.args[4]
        form = self.program.forms[str(action.outputs[1])]
        counted = Call("aten.ne.Scalar", (target, ignored))
        total = Call("aten.sum.default", (counted,), (("dtype", Word(f"torch.{form.dtype}")),))
        self.text.append(f"    {action.outputs[1]} = {expression(total)}")
        self.ahead = self.region.rows
        if action.call.args[3] == _MEAN:
            self.behind.append(f"    aten.div_.Tensor({action.outputs[0]}, {action.outputs[1]})")

    def _op(self, row: Row, action: Action) -> None:
        """The line of an op in the loop, and where its results go."""
        call, name = self._call(row, action), action.call.target.split(".")[1]
        reduced = [o for o, d in zip(action.outputs, row.dims, strict=True) if o is not None and d is None]
        if action.writes:
            self._added(expression(call))
            return
        if name in _INTO and reduced:
            self._added(f"{_INTO[name]}({reduced[0]}, {expression(call.args[0])}, {expression(call.args[1])})")
            return
        if name == "nll_loss_forward":
            self._added(f"aten.add_.Tensor({action.outputs[0]}, {expression(replace(call, pick=0))})")
            return
        if not action.several and reduced:
            self._added(f"aten.add_.Tensor({reduced[0]}, {expression(call)})", reduced[0])
            return
        if name in _INTO and self._lands(row, action):
            into = expression(replace(call, target=f"aten.{name}.out"))
            self._added(f"{into[:-1]}, out={self._place(row, action, 0)})")
            return
        self._plain(row, action, call)

    def _lands(self, row: Row, action: Action) -> bool:
        """Whether a product is written where it belongs at once: contiguous rows without a consumer here."""
        name = str(action.outputs[0])
        form = self.program.forms[name]
        along = row.dims[0]
        ahead = along is not None and along.dim == 0 and form.contiguous
        return ahead and name in self.region.made and self._full(name) == name

    def _place(self, row: Row, action: Action, k: int) -> str:
        along = row.dims[k]
        assert along is not None
        return expression(_rows_of(Ref(self._full(str(action.outputs[k]))), along))

    def _plain(self, row: Row, action: Action, call: Call) -> None:
        """Results as they come; those read elsewhere are copied where they belong."""
        outputs = [f"part_{o}" if o in self.region.made and self._full(o) == o else o or "_" for o in action.outputs]
        targets = f"{', '.join(outputs)}," if action.several else outputs[0]
        self.text.append(f"        {targets} = {expression(call)}")
        for k, (output, name) in enumerate(zip(outputs, action.outputs, strict=True)):
            if name is not None:
                self.live[output] = self._part_bytes(name) if row.dims[k] is not None else self._bytes(name)
        self.heights.append(sum(self.live.values()))
        for k, (output, name) in enumerate(zip(outputs, action.outputs, strict=True)):
            if name is None or name not in self.region.made:
                continue
            if row.dims[k] is None:
                self.text.append(f"        aten.add_.Tensor({self._full(name)}, {output})")
            else:
                self.text.append(f"        aten.copy_.default({self._place(row, action, k)}, {output})")

    def _added(self, line: str, temporary: str | None = None) -> None:
        self.text.append(f"        {line}")
        inside = self._bytes(temporary) if temporary is not None else 0
        self.heights.append(sum(self.live.values()) + inside)

    def _bytes(self, name: str) -> int:
        return self.program.forms[name].extent_bytes

    def _part_bytes(self, name: str) -> int:
        form = self.program.forms[name]
        return form.width * prod(form.shape) * self.rows // self.region.rows

    def _call(self, row: Row, action: Action) -> Call:
        """The call on rows of its operands, with what hangs on the number of rows as it is for all of them."""
        if action.writes:
            return instead_of(action.call, {o.value: self._operand(o, action) for o in row.operands})
        args = list(action.call.args)
        for operand in row.operands:
            args[operand.position] = self._operand(operand, action)
        name, (_, each) = action.call.target.split(".")[1], row.start
        sized = BATCH_SIZE.get(name)
        if sized is not None:
            args[sized] = self._count(each) if isinstance(args[sized], int) else (self._count(each), *args[sized][1:])
        elif name == "convolution_backward" and args[3] is not None and row.dims[2] is not None:
            args[3] = (self._count(each),)
        if name == "nll_loss_forward":
            args[3] = _SUM
        elif name == "mse_loss":
            mean = (args[2] if len(args) > 2 else _MEAN) == _MEAN
            args[2:] = [_SUM]
            if mean:
                count = prod(self.program.forms[row.operands[0].root].shape)
                self.behind.append(f"    aten.div_.Scalar({action.outputs[0]}, {count})")
        elif name == "mse_loss_backward" and args[3] == _MEAN:
            count = prod(self.program.forms[row.operands[1].root].shape)
            args[0], args[3] = Call("aten.div.Scalar", (args[0], count)), _SUM
        return replace(action.call, args=tuple(args))

    def _count(self, each: int) -> Word:
        """How many entries the rows at hand are."""
        return Word("end_row - first_row" if each == 1 else f"(end_row - first_row) * {each}")

    def _operand(self, operand: Operand, action: Action) -> Ref | Call:
        if operand.root in self.region.given:
            return operand.value if operand.along is None else _rows_of(operand.value, operand.along)
        along = self.places[operand.root]
        if is_total_weight(action, operand.position) or along is None:
            return operand.value
        return part_seen(Ref(operand.root), operand.chain, along)


def _rows_of(value: Ref | Call, along: Along) -> Call:
    """Some rows of a tensor, where all are there."""
    ends = ("first_row", "end_row") if along.each == 1 else (f"first_row * {along.each}", f"end_row * {along.each}")
    return Call("aten.slice.Tensor", (value, along.dim, Word(ends[0]), Word(ends[1])))


def _device(device: tuple[str, int | None]) -> str:
    return device[0] if device[1] is None else f"{device[0]}:{device[1]}"
