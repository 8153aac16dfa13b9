"""From traces written by hand to programs, graphs and source; no torch is needed."""

from __future__ import annotations

from lowtide.graph import Graph
from lowtide.read.aten.trace import Form, Ref
from lowtide.torch.generate import expression, source_of
from lowtide.torch.optimizer import Rule, with_updates
from lowtide.torch.program import Action, Call, Given, Program, Result, Traced, Word, refs, replaced
from lowtide.torch.sequence import sequence_of, why_not
from lowtide.torch.storages import as_graph, root_of, settle


def form(*shape: int, strides: tuple[int, ...] = (), dtype: str = "float32", device: str = "cpu") -> Form:
    """A form, contiguous unless strides are given."""
    rows = [1]
    for n in reversed(shape[1:]):
        rows.insert(0, rows[0] * n)
    width = {"float32": 4, "bool": 1}[dtype]
    return Form(shape, strides or tuple(rows[: len(shape)]), 0, dtype, width, (device, None))


def call(name: str, target: str, *args: object, outputs: tuple[str | None, ...] = (), random: bool = False) -> Action:
    """A call of the trace; without outputs it gives one tensor of its own name."""
    operands = tuple([Ref(arg) if isinstance(arg, str) and not isinstance(arg, Word) else arg for arg in args])
    return Action(name, Call(target, operands), outputs or (name,), bool(outputs), (), random)


def traced(
    forms: dict[str, Form],
    givens: tuple[str, ...],
    calls: list[Action],
    results: list[Result],
    views: set[str] | None = None,
) -> Traced:
    """A trace whose given tensors are parameters."""
    given = tuple([Given(name, "parameter", name, forms[name]) for name in givens])
    return Traced("net", given, tuple(calls), frozenset(views or ()), forms, tuple(results))


def names(program: Program) -> list[str]:
    """Names of the ops in order."""
    return [action.name for action in program.actions]


def test_views_stand_where_they_are_read() -> None:
    """Chains of them too; two transposes cancel, a shape of a shape is one, and what splits is picked."""
    forms = {"w": form(6, 2), "t": form(2, 6, strides=(1, 2)), "tt": form(6, 2), "v": form(12), "u": form(3, 4)}
    forms |= {"s_0": form(3, 2), "s_1": form(3, 2), "y": form(6, 2), "z": form(3, 4), "q": form(3, 2)}
    calls = [
        call("t", "aten.t.default", "w"), call("tt", "aten.t.default", "t"), call("v", "aten.view.default", "w", (12,)),
        call("u", "aten.view.default", "v", (3, 4)), call("d", "aten.detach.default", "w"),
        call("s", "aten.split.Tensor", "w", 3, outputs=("s_0", "s_1")), call("y", "aten.relu.default", "tt"),
        call("z", "aten.cumsum.default", "u", 0), call("q", "aten.mm.default", "s_1", "t"),
    ]  # fmt: skip
    forms["d"] = forms["w"]
    results = [Result("output", str(k), Ref(name)) for k, name in enumerate("yzq")]
    program = settle(traced(forms, ("w",), calls, results, {"t", "tt", "v", "u", "d", "s"}))
    assert [expression(action.call) for action in program.actions] == [
        "aten.relu.default(w)",
        "aten.cumsum.default(aten.view.default(w, [3, 4]), 0)",
        "aten.mm.default(aten.split.Tensor(w, 3)[1], aten.t.default(w))",
    ]
    assert {root_of(action.call) for action in program.actions} == {"w"}


def test_elementwise_ops_run_on_the_shape_in_which_tensors_lie() -> None:
    """A cast and a product between two shapes have the rows of what is below; what reads them sees the other shape.
    One that broadcasts, or whose tensors lie in two shapes, stays."""
    forms = {"w": form(6, 2), "v": form(3, 4), "c": form(3, 4), "y": form(3, 4), "u": form(6, 2), "z": form(6, 2)}
    forms |= {"b": form(4), "s": form(3, 4), "m": form(3, 4)}
    calls = [
        call("v", "aten.view.default", "w", (3, 4)), call("c", "aten._to_copy.default", "v"),
        call("y", "aten.mul.Tensor", "c", "v"), call("u", "aten.view.default", "y", (6, 2)),
        call("z", "aten.cumsum.default", "u", 0), call("s", "aten.add.Tensor", "v", "b"),
        call("m", "aten.mul.Tensor", "s", "v"), call("t", "aten.cumsum.default", "c", 1),
    ]  # fmt: skip
    forms["t"] = forms["c"]
    results = [Result("output", str(k), Ref(name)) for k, name in enumerate("zmty")]
    program = settle(traced(forms, ("w", "b"), calls, results, {"v", "u"}))
    assert [expression(action.call) for action in program.actions] == [
        "aten._to_copy.default(w)",
        "aten.mul.Tensor(c, w)",
        "aten.cumsum.default(y, 0)",
        "aten.add.Tensor(aten.view.default(w, [3, 4]), b)",
        "aten.mul.Tensor(s, aten.view.default(w, [3, 4]))",
        "aten.cumsum.default(aten.view.default(c, [3, 4]), 1)",
    ]
    assert (program.forms["c"].shape, program.forms["c"].strides) == ((6, 2), (2, 1))
    assert expression(program.results[-1].value) == "aten.view.default(y, [3, 4])"


def test_a_clone_is_its_source_only_where_that_is_the_same() -> None:
    """Not of part of a storage, not into another layout, not of what the step changes."""
    forms = {
        "w": form(4, 4),
        "b": form(4, 4),
        "a": form(4, 4),
        "part": form(2, 4),
        "turned": form(4, 4, strides=(1, 4)),
    }
    forms |= {"same": form(4, 4), "piece": form(2, 4), "other": form(4, 4), "kept": form(4, 4), "laid": form(4, 4)}
    calls = [
        call("a", "aten.relu.default", "w"), call("same", "aten.clone.default", "a"),
        call("part", "aten.slice.Tensor", "a", 0, 0, 2), call("piece", "aten.clone.default", "part"),
        call("turned", "aten.t.default", "a"), call("laid", "aten.clone.default", "turned"),
        call("kept", "aten.clone.default", "b"), call("other", "aten.neg.default", "same"),
    ]  # fmt: skip
    results = [Result("output", "0", Ref("other")), Result("output", "1", Ref("piece"))]
    results += [Result("output", "2", Ref("laid")), Result("output", "3", Ref("kept")), Result("buffer", "b", Ref("a"))]
    program = settle(traced(forms, ("w", "b"), calls, results, {"part", "turned"}))
    assert names(program) == ["a", "piece", "laid", "kept", "other"]
    assert expression(program.actions[-1].call) == "aten.neg.default(a)"


def test_dropout_is_a_mask_and_a_value_on_the_cpu() -> None:
    """The value is made again at will, the mask never; elsewhere the kernel stays as it is."""
    for device, expected in (("cpu", ["k", "o", "loss", "g"]), ("cuda", ["d", "loss", "g"])):
        forms = {"x": form(4, 4, device=device), "o": form(4, 4, device=device), "g": form(4, 4, device=device)}
        forms["k"] = form(4, 4, dtype="bool", device=device)
        calls = [
            call("d", "aten.native_dropout.default", "x", 0.25, True, outputs=("o", "k"), random=True),
            call("g", "aten.native_dropout_backward.default", "o", "k", 4 / 3),
        ]
        results = [Result("loss", "0", Ref("o")), Result("gradient", "x", Ref("g"))]
        program = settle(traced(forms, ("x",), calls, results))
        assert names(program) == expected
        assert [action.name for action in program.actions if action.random] == expected[:1]
        if device == "cpu":
            noise = "aten.div_.Tensor(aten._to_copy.default(k, dtype=torch.float32), 0.75)"
            assert expression(program.actions[1].call) == f"aten.mul_.Tensor({noise}, x)"
            assert expression(program.actions[-1].call) == f"aten.mul_.Tensor({noise}, o)"


def test_gradients_of_a_tied_parameter_are_summed_as_they_come() -> None:
    """In the order in which they are made, whatever the order of its names; each sum right behind its last part."""
    forms: dict[str, Form] = dict.fromkeys(("w", "a", "b", "c", "late"), form(4))
    calls = [call(name, "aten.neg.default", "w") for name in ("a", "b", "c", "late")]
    results = [Result("gradient", "w", Ref(name)) for name in ("c", "a", "b")] + [Result("loss", "0", Ref("late"))]
    program = settle(traced(forms, ("w",), calls, results))
    sums = {action.name: expression(action.call) for action in program.actions if action.name.startswith("sum")}
    assert list(sums.values()) == ["aten.add.Tensor(a, b)", "aten.add.Tensor(sum_w, c)"]
    assert names(program) == ["a", "b", "sum_w", "c", "sum_w_1", "late", "loss"]
    assert [expression(r.value) for r in program.results] == ["loss", "sum_w_1"]


def test_what_nobody_reads_does_not_run_unless_it_draws() -> None:
    """Eager draws too: the numbers that follow would be others."""
    forms: dict[str, Form] = dict.fromkeys(("w", "a", "b", "r"), form(4))
    calls = [
        call("a", "aten.neg.default", "w"), call("b", "aten.neg.default", "a"),
        call("r", "aten.rand_like.default", "w", random=True),
    ]  # fmt: skip
    program = settle(traced(forms, ("w",), calls, [Result("output", "0", Ref("a"))]))
    assert names(program) == ["a", "r"]


def updated() -> tuple[Program, Graph]:
    """A parameter that is read twice, the second time behind its gradient; a buffer that is written."""
    forms: dict[str, Form] = dict.fromkeys(("w", "b", "g", "h", "n"), form(4))
    calls = [
        call("n", "aten.add.Tensor", "b", 1),
        call("g", "aten.neg.default", "w"),
        call("h", "aten.mul.Tensor", "w", "g"),
    ]
    results = [Result("gradient", "w", Ref("g")), Result("output", "0", Ref("h")), Result("buffer", "b", Ref("n"))]
    program = settle(traced(forms, ("w", "b"), calls, results))
    rule = Rule(0, "sgd", False, True, False, False, False, False)
    program = with_updates(program, {"w": rule})
    return program, as_graph(program, {}, {})


def test_an_update_stands_behind_the_last_reader_of_its_parameter() -> None:
    """And the buffer is written at the end; the state is given."""
    program, graph = updated()
    assert names(program) == ["n", "g", "h", "momentum_w", "update_w", "write_b"]
    assert program.givens[-1] == Given("momentum_buffer_w", "state", "momentum_buffer:w", form(4))
    assert [expression(a.call) for a in program.actions[3:]] == [
        'aten.add_.Tensor(aten.mul_.Tensor(momentum_buffer_w, h["0.momentum"]), g, alpha=h["0.fresh"])',
        'aten.add_.Tensor(w, momentum_buffer_w, alpha=h["0.minus_lr"])',
        "aten.copy_.default(b, n)",
    ]
    assert [result.kind for result in program.results] == ["output"]
    assert [op.after for op in graph.ops] == [(), (), (), (), (3, 1, 2), (0,)]


def test_nothing_runs_again_behind_what_changes_its_operand() -> None:
    """Before the update it may, behind it no more; updates run once."""
    _, graph = updated()
    assert why_not(graph, [0, 1, 1, 2, 3, 4, 5]) is None
    assert "changes what it reads" in (why_not(graph, [0, 1, 2, 3, 4, 1, 5]) or "")
    assert "changes what it reads" in (why_not(graph, [0, 1, 2, 3, 4, 5, 0]) or "")
    assert "cannot run twice" in (why_not(graph, [0, 1, 2, 3, 4, 4, 5]) or "")
    assert "stay after" in (why_not(graph, [0, 1, 3, 4, 2, 5]) or "")


def test_the_source_has_a_line_for_each_op_and_each_death() -> None:
    """What runs again is marked, unread results of several are dropped there, words stand as they are."""
    forms: dict[str, Form] = dict.fromkeys(("w", "a", "m_0", "m_1", "z"), form(4))
    calls = [
        call("a", "aten.relu.default", "w"), call("m", "custom.two.default", "a", None, outputs=("m_0", "m_1", None)),
        call("z", "aten.add.Tensor", "m_0", "a", float("inf"), Word("torch.float32"), "text"),
    ]  # fmt: skip
    calls[2] = Action("z", Call("aten.add.Tensor", (*calls[2].call.args[:4], "text")), ("z",))
    program = settle(traced(forms, ("w",), calls, [Result("output", "0", Ref("z"))]))
    graph = as_graph(program, {}, {})
    lines = source_of(program, sequence_of(graph, [0, 1, 0, 2])).splitlines()
    body = [line.strip() for line in lines[lines.index("    ] = given") + 1 :]]
    assert body == [
        "a = aten.relu.default(w)",
        "m_0, _, _ = torch.ops.custom.two.default(a, None)",
        "del _",
        "del a",
        "a = aten.relu.default(w)  # again",
        "z = aten.add.Tensor(m_0, a, float(\"inf\"), torch.float32, 'text')",
        "del m_0, a",
        "return [z]",
    ]


def test_references_are_seen_and_replaced_everywhere() -> None:
    """In lists, keywords and calls within calls."""
    value = Call("f", (Ref("a"), (Ref("b"), 1)), (("k", Call("g", (Ref("c"),), pick=2)),))
    assert [ref.name for ref in refs(value)] == ["a", "b", "c"]
    instead = replaced(value, {"b": Call("h", ()), "c": Ref("d")})
    assert expression(instead) == "torch.ops.f(a, [torch.ops.h(), 1], k=torch.ops.g(d)[2])"
