"""A region of a step run for some rows at a time: a function of its own in the step's source, a loop in it.

::

    def rows_1f3c(hidden, weight, target, one):
        total = ...                                    what hangs on all rows and is known before them
        made = aten.empty_strided.default(...)         results of rows: slices are written where they belong
        added = aten.zero_.default(...)                results that are sums over rows: added to in place
        for first in range(0, 2048, 256):
            end = min(first + 256, 2048)
            ...                                        the ops in own order, each tensor dropped behind its last reader
        aten.div_.Tensor(loss, total)                  a mean's divisor is that of all rows
        return made, added

Rows of results are computed from the same rows of operands; a kernel may sum within a row in another order where there
are fewer rows, and sums over rows are added up part by part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from lowtide.graph import Graph
from lowtide.read.aten.trace import Ref
from lowtide.torch.generate import expression
from lowtide.torch.program import Action, Body, Call, Program, Word
from lowtide.torch.rows import Operand, Region, Row, is_total_weight

_MEAN, _SUM = 1, 2
"""How torch numbers reductions of losses."""


def sliced(program: Program, graph: Graph, region: Region, parts: int) -> Program:
    """The program with a region as one op that runs in that many parts.

    Parameters
    ----------
    graph
        The program's.
    parts
        At least 1; the last one may be smaller.
    """
    rows = -(-region.rows // parts)
    writer = _Writer(program, region, rows)
    lines, workspace = writer.lines()
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    name = f"rows_{digest}"
    source = "\n".join([f"def {name}({', '.join(region.given)}):", *lines, ""])
    inside = tuple([program.actions[k] for k in region.indices])
    whole = tuple([_whole_bytes(program, region, row) for row in region.ops])
    body = Body(source, inside, -(-region.rows // rows), workspace, whole)
    call = Call(f"body.{name}", tuple([Ref(n) for n in region.given]))
    action = Action(name, call, region.made, several=True)
    actions = _in_order(program, graph, region, action)
    return replace(program, actions=actions, bodies={**program.bodies, name: body})


def _whole_bytes(program: Program, region: Region, row: Row) -> int:
    """What each part of an op moves, however few its rows are."""
    read = {operand.root for operand in row.operands if operand.dim is None and operand.root in region.given}
    sums = [name for name, dim in zip(program.actions[row.index].outputs, row.dims, strict=True) if dim is None]
    forms = program.forms
    return sum(forms[name].extent_bytes for name in read) + 2 * sum(
        forms[n].extent_bytes for n in sums if n is not None
    )


def _in_order(program: Program, graph: Graph, region: Region, action: Action) -> tuple[Action, ...]:
    """The actions with one in place of the region's, where it may first stand: what it reads before it, what reads it
    behind."""
    inside, before = set(region.indices), graph.predecessors
    needed: set[int] = set()
    for k in reversed(range(len(program.actions))):
        if k in inside or k in needed:
            needed.update(before[k])
    first = min(inside)
    order: list[Action] = [program.actions[k] for k in range(first)]
    order += [program.actions[k] for k in range(first, len(program.actions)) if k in needed and k not in inside]
    order.append(action)
    order += [program.actions[k] for k in range(first, len(program.actions)) if k not in needed and k not in inside]
    return tuple(order)


@dataclass
class _Writer:
    """Writes the function of a region, and counts what it takes beside its results."""

    program: Program
    region: Region
    rows: int
    text: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    live: dict[str, int] = field(default_factory=dict)
    most: int = 0

    def lines(self) -> tuple[list[str], int]:
        """The lines below its first, and the bytes of workspace."""
        actions = [self.program.actions[row.index] for row in self.region.ops]
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
        self.text += [*self.behind, f"    return [{', '.join(self.region.made)}]"]
        return self.text, self.most

    def _ahead(self, actions: Sequence[Action]) -> None:
        """What stands before the loop: results, and the number of rows that count."""
        for row, action in zip(self.region.ops, actions, strict=True):
            name = action.call.target.split(".")[1]
            if name == "nll_loss_forward":
                self._total(action)
            for output, dim in zip(action.outputs, row.dims, strict=True):
                if output is None or output not in self.region.made or self._is_total(action, output):
                    continue
                form = self.program.forms[output]
                options = f'dtype=torch.{form.dtype}, device=torch.device("{_device(form.device)}")'
                empty = f"aten.empty_strided.default({list(form.shape)}, {list(form.strides)}, {options})"
                made = self._whole(output)
                self.text.append(f"    {made} = {empty if dim is not None else f'aten.zero_.default({empty})'}")

    def _whole(self, name: str) -> str:
        """Name of all rows of a result: its own, if no op of the region reads it."""
        read = any(operand.root == name for row in self.region.ops for operand in row.operands)
        return f"all_{name}" if read and not name.startswith("all_") else name

    def _is_total(self, action: Action, output: str) -> bool:
        return action.call.target.startswith("aten.nll_loss_forward.") and output == action.outputs[1]

    def _total(self, action: Action) -> None:
        """The number of targets that are not left out, as torch counts it: a number of the scores' type."""
        target, ignored = action.call.args[1], action.call.args[4]
        form = self.program.forms[str(action.outputs[1])]
        counted = Call("aten.ne.Scalar", (target, ignored))
        total = Call("aten.sum.default", (counted,), (("dtype", Word(f"torch.{form.dtype}")),))
        self.text.append(f"    {action.outputs[1]} = {expression(total)}")
        self.most = max(self.most, self.region.rows)
        if action.call.args[3] == _MEAN:
            self.behind.append(f"    aten.div_.Tensor({action.outputs[0]}, {action.outputs[1]})")

    def _op(self, row: Row, action: Action) -> None:
        """The line of an op in the loop, and where its results go."""
        call, name = self._call(row, action), action.call.target.split(".")[1]
        reduced = [o for o, d in zip(action.outputs, row.dims, strict=True) if o is not None and d is None]
        if name == "mm" and reduced:
            self._added(f"aten.addmm_.default({reduced[0]}, {expression(call.args[0])}, {expression(call.args[1])})")
            return
        if name == "nll_loss_forward":
            self._added(f"aten.add_.Tensor({action.outputs[0]}, {expression(replace(call, pick=0))})")
            return
        if not action.several and reduced:
            self._added(f"aten.add_.Tensor({reduced[0]}, {expression(call)})", reduced[0])
            return
        if name == "mm" and self._lands(row, action):
            self._added(f"{expression(replace(call, target='aten.mm.out'))[:-1]}, out={self._place(row, action, 0)})")
            return
        self._plain(row, action, call)

    def _lands(self, row: Row, action: Action) -> bool:
        """Whether a product is written where it belongs at once: rows in one piece that nobody here reads."""
        name = str(action.outputs[0])
        form = self.program.forms[name]
        return name in self.region.made and self._whole(name) == name and row.dims[0] == 0 and form.contiguous

    def _place(self, row: Row, action: Action, k: int) -> str:
        name = str(action.outputs[k])
        return f"aten.slice.Tensor({self._whole(name)}, {row.dims[k]}, first_row, end_row)"

    def _plain(self, row: Row, action: Action, call: Call) -> None:
        """Results as they come; those read elsewhere are copied where they belong."""
        outputs = [f"part_{o}" if o in self.region.made and self._whole(o) == o else o for o in action.outputs if o]
        targets = f"{', '.join(outputs)}," if action.several else outputs[0]
        self.text.append(f"        {targets} = {expression(call)}")
        for k, (output, name) in enumerate(zip(outputs, action.outputs, strict=True)):
            self.live[output] = self._part_bytes(str(name)) if row.dims[k] is not None else self._bytes(str(name))
        self.most = max(self.most, sum(self.live.values()))
        for k, (output, name) in enumerate(zip(outputs, action.outputs, strict=True)):
            if name not in self.region.made:
                continue
            if row.dims[k] is None:
                self.text.append(f"        aten.add_.Tensor({self._whole(name)}, {output})")
            else:
                self.text.append(f"        aten.copy_.default({self._place(row, action, k)}, {output})")

    def _added(self, line: str, temporary: str | None = None) -> None:
        self.text.append(f"        {line}")
        inside = self._bytes(temporary) if temporary is not None else 0
        self.most = max(self.most, sum(self.live.values()) + inside)

    def _bytes(self, name: str) -> int:
        return self.program.forms[name].extent_bytes

    def _part_bytes(self, name: str) -> int:
        form = self.program.forms[name]
        return form.width * prod(form.shape) * self.rows // self.region.rows

    def _call(self, row: Row, action: Action) -> Call:
        """The call on rows of its operands, with what hangs on the number of rows as it is for all of them."""
        args = list(action.call.args)
        for operand in row.operands:
            args[operand.position] = self._operand(operand, action)
        name = action.call.target.split(".")[1]
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

    def _operand(self, operand: Operand, action: Action) -> Ref | Call:
        if operand.root in self.region.given:
            if operand.dim is None:
                return operand.value
            return Call("aten.slice.Tensor", (operand.value, operand.dim, Word("first_row"), Word("end_row")))
        if is_total_weight(action, operand.position):
            return operand.value
        return _without_sizes(operand.value)


def _without_sizes(value: Ref | Call) -> Ref | Call:
    """A view of rows: what only repeats the shape is left out."""
    if isinstance(value, Ref):
        return value
    inner = _without_sizes(value.args[0])
    return replace(value, args=(inner, *value.args[1:])) if value.target == "aten.t.default" else inner


def _device(device: tuple[str, int | None]) -> str:
    return device[0] if device[1] is None else f"{device[0]}:{device[1]}"
