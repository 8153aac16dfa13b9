import json
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import main
from lowtide.cli.parser import parser_of_all
from lowtide.cli.tree import all_commands
from lowtide.names import shorten
from lowtide.target import BUILT_IN
from support.command import Captured, run, run_json
from support.small_models import branches, graph_file, matrix_product, onnx_file, tensor
from support.tflite_builder import residual


def test_plan_prints_a_summary(tmp_path: Path, capsys: Captured):
    """Before, after, bound, arena and target are on stdout, and nothing is on stderr or written."""
    path = graph_file(tmp_path, branches())
    status, out, err = run(capsys, "research", "plan", path, "--target", "strict")
    assert (status, err) == (0, "")
    for words in ("file order peak  208 B", "109 B", "proved optimal", "strict", "arena"):
        assert words in out
    assert list(tmp_path.iterdir()) == [path]


def test_plan_json_is_the_plan_of_the_python_call(tmp_path: Path, capsys: Captured):
    """Every key but the seconds is what `lowtide.research.plan` returns."""
    path = graph_file(tmp_path, branches())
    shown = run_json(capsys, "research", "plan", path, "--target", "strict")
    made = json.loads(lowtide.research.plan(path, target="strict").to_json())
    del shown["seconds"], made["seconds"]
    assert shown == made
    assert shown["peak_bytes"] == 109


def test_plan_writes_model_and_plan(tmp_path: Path, capsys: Captured):
    """Both outputs are there; the written model's own order is the plan's; stderr names the files."""
    path, out, plan_file = graph_file(tmp_path, branches()), tmp_path / "o.graph.json", tmp_path / "p.json"
    status, _, err = run(capsys, "research", "plan", path, "-o", out, "--plan", plan_file, "--target", "strict")
    assert status == 0
    assert err == f"lowtide: wrote {out}\nlowtide: wrote {plan_file}\n"
    assert lowtide.research.plan(out, target="strict").own_order_peak_bytes == 109
    assert json.loads(plan_file.read_text())["model_sha256"] == lowtide.load(path).sha256


def test_the_same_call_twice_gives_the_same_bytes(tmp_path: Path, capsys: Captured):
    """OUT, and the plan without its seconds."""
    path = onnx_file(tmp_path)
    seen = []
    for name in ("one", "two"):
        run(capsys, "research", "plan", path, "-o", tmp_path / f"{name}.onnx", "--plan", tmp_path / f"{name}.json")
        made = json.loads((tmp_path / f"{name}.json").read_text())
        del made["seconds"]
        seen.append((json.dumps(made), (tmp_path / f"{name}.onnx").read_bytes()))
    assert seen[0] == seen[1]


def test_quiet_says_nothing_on_stderr(tmp_path: Path, capsys: Captured):
    """Not even which files were written."""
    status, _, err = run(
        capsys, "research", "plan", graph_file(tmp_path, branches()), "--plan", tmp_path / "p.json", "-q"
    )
    assert (status, err) == (0, "")


def test_verbose_shows_counters_and_certificate(tmp_path: Path, capsys: Captured):
    """The search's own figures."""
    _, out, _ = run(capsys, "research", "plan", graph_file(tmp_path, branches()), "-v")
    assert "certificate" in out
    assert "search memory bytes" in out


def test_plan_of_another_method(tmp_path: Path, capsys: Captured):
    """The method is named, its options are set, and its order is its own."""
    path = graph_file(tmp_path, branches())
    shown = run_json(capsys, "research", "plan", path, "--target", "strict", "--method", "own")
    assert (shown["method"], shown["peak_bytes"], shown["optimal"]) == ("own", 208, False)
    assert run_json(capsys, "research", "plan", path, "--set", "exact.cut=false")["optimal"]


@pytest.mark.parametrize(("budget", "status", "verdict"), [("256", 0, "to spare"), ("150", 3, "over budget")])
def test_plan_within_and_over_a_budget(tmp_path: Path, capsys: Captured, budget: str, status: int, verdict: str):
    """The exit status and the summary say whether the plan fits; over budget it is written all the same."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    found, out, _ = run(capsys, "research", "plan", path, "--budget", budget, "--plan", plan_file)
    assert found == status
    assert verdict in out
    assert json.loads(plan_file.read_text())["budget_bytes"] == int(budget)


def test_check_fits(tmp_path: Path, capsys: Captured):
    """One line, status 0."""
    status, out, err = run(capsys, "check", graph_file(tmp_path, branches()), "--target", "strict", "--budget", "109B")
    assert (status, err) == (0, "")
    assert out == "fits: required 109 B, available 109 B, to spare 0 B (target strict, peak proved optimal)\n"


def test_check_proves_a_budget_impossible(tmp_path: Path, capsys: Captured):
    """A byte less than the optimum: one line, status 4."""
    status, out, _ = run(capsys, "check", graph_file(tmp_path, branches()), "--target", "strict", "--budget", "108")
    assert status == 4
    assert out.startswith("cannot fit untiled, the lower bound is 109 B: required 109 B, available 108 B, excess 1 B")
    assert out.count("\n") == 1


def test_reserve_counts_as_required(tmp_path: Path, capsys: Captured):
    """The reserve is taken off the budget."""
    call = ("check", graph_file(tmp_path, branches()), "--target", "strict", "--budget", "120", "--reserve")
    assert run(capsys, *call, "11")[0] == 0
    assert run(capsys, *call, "12")[0] == 4


def test_check_as_is_judges_the_own_order(tmp_path: Path, capsys: Captured):
    """The file order's arena decides; impossible is only what no order can do."""
    call = ("check", graph_file(tmp_path, branches()), "--target", "strict", "--as-is", "--budget")
    assert run(capsys, *call, "208")[0] == 0
    status, out, _ = run(capsys, *call, "150")
    assert (status, out.startswith("does not fit: required 208 B")) == (3, True)
    assert run(capsys, *call, "100")[0] == 4


def test_check_json(tmp_path: Path, capsys: Captured):
    """The keys that scripts rely on."""
    path = graph_file(tmp_path, branches())
    shown = run_json(capsys, "check", path, "--target", "strict", "--budget", "1KiB")
    assert shown == {
        "model": str(path),
        "required_bytes": 109,
        "available_bytes": 1024,
        "excess_bytes": 0,
        "lower_bound_bytes": 109,
        "optimal": True,
        "target": "strict",
        "status": "ok",
        "stopped": "proof",
        "sure": "exact",
        "least_bytes": 109,
    }


def test_check_and_plan_agree(tmp_path: Path, capsys: Captured):
    """Where the budget is not met, `check` requires what `plan` does."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path, budget="150")
    assert lowtide.check(path, "150").required_bytes == made.required_bytes


def test_require_optimal_without_proof_is_6(tmp_path: Path, capsys: Captured):
    """Over budget and impossible come before it."""
    call = (
        "research", "plan", graph_file(tmp_path, branches()), "--target", "strict", "--method", "own",
        "--require-optimal",
    )  # fmt: skip
    assert run(capsys, *call)[0] == 6
    assert run(capsys, *call, "--budget", "150")[0] == 3
    assert run(capsys, *call, "--budget", "100")[0] == 4


def test_dims_are_bound(tmp_path: Path, capsys: Captured):
    """By name; the size decides the peak."""
    path = onnx_file(tmp_path, batch="batch")
    small = run_json(capsys, "research", "plan", path, "--dim", "batch=1")
    large = run_json(capsys, "research", "plan", path, "--dim", "batch=8")
    assert large["own_order_peak_bytes"] == 8 * small["own_order_peak_bytes"]


def test_verify_a_good_plan(tmp_path: Path, capsys: Captured):
    """Every check is shown, and that the plan holds."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    run(capsys, "research", "plan", path, "--plan", plan_file, "--target", "strict")
    status, out, err = run(capsys, "verify", path, plan_file, "--prove")
    assert (status, err) == (0, "")
    assert "the plan holds" in out
    assert "proof" in out
    shown = run_json(capsys, "verify", path, plan_file, "--prove")
    assert shown["proof"]["result"] in ("checked", "re-proved")
    assert shown["numbers"]["peak_bytes"] == 109


def test_verify_names_what_fails(tmp_path: Path, capsys: Captured):
    """A plan with a wrong peak: one line with the name of the failure, status 5, nothing on stdout."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    run(capsys, "research", "plan", path, "--plan", plan_file)
    made = json.loads(plan_file.read_text())
    made["peak_bytes"] -= 1
    plan_file.write_text(json.dumps(made))
    status, out, err = run(capsys, "verify", path, plan_file, "--json")
    assert (status, out) == (5, "")
    assert err.startswith("lowtide: peak: ")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_verify_runs_both_orders(tmp_path: Path, capsys: Captured):
    """Under onnxruntime the outputs are equal, and the measured memory is shown beside the plan's."""
    pytest.importorskip("onnxruntime")
    path, plan_file = onnx_file(tmp_path), tmp_path / "p.json"
    run(capsys, "research", "plan", path, "--plan", plan_file)
    status, out, _ = run(capsys, "verify", path, plan_file, "--run")
    assert status == 0
    assert "equal bit by bit" in out
    shown = run_json(capsys, "verify", path, plan_file, "--run")["run"]
    assert all(o["equal"] and not o["vacuous"] for o in shown["outputs"])


def test_inspect_prints_who_is_live(tmp_path: Path, capsys: Captured):
    """The op at the peak, the tensors there, and who keeps them."""
    status, out, _ = run(capsys, "inspect", graph_file(tmp_path, branches()), "--target", "strict")
    assert status == 0
    for words in ("file order peak  208 B", "109 B, -47.6 %, proved optimal", "step 1: op1 (Conv)", "t2", "op2"):
        assert words in out


def test_inspect_json(tmp_path: Path, capsys: Captured):
    """Sizes have names that say so."""
    shown = run_json(capsys, "inspect", graph_file(tmp_path, branches()), "--target", "strict")
    assert shown["own_order_peak_bytes"] == 208
    assert shown["peak"]["live"][0]["size_bytes"] == 100
    assert shown["footprint_bytes"] == [108, 208, 201, 102, 3]


def test_compare_table_and_json(tmp_path: Path, capsys: Captured):
    """A row per method asked for; the target is named."""
    path = graph_file(tmp_path, branches())
    status, out, _ = run(capsys, "research", "compare", path, "--methods", "own,exact", "--target", "strict")
    assert status == 0
    assert "target strict" in out
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["own", "exact"]
    rows = run_json(capsys, "research", "compare", path, "--methods", "own,exact", "--target", "strict")
    assert [(r["method"], r["status"], r["peak_bytes"], r["optimal"]) for r in rows] == [
        ("own", "ok", 208, False),
        ("exact", "ok", 109, True),
    ]
    assert set(rows[0]) == {
        "method", "status", "peak_bytes", "arena_bytes", "lower_bound_bytes", "optimal", "counters", "seconds",
    }  # fmt: skip


@pytest.mark.slow
def test_targets_are_listed_and_read_back(tmp_path: Path, capsys: Captured):
    """What `target NAME` prints is a file that --target takes, and plans alike."""
    status, out, _ = run(capsys, "research", "target")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(BUILT_IN)
    assert [row["name"] for row in run_json(capsys, "research", "target")] == list(BUILT_IN)
    _, out, _ = run(capsys, "research", "target", "generic")
    assert "# binary: elementwise, in place over any input" in out
    mine = tmp_path / "mine.toml"
    mine.write_text(out)
    path = graph_file(tmp_path, branches())
    assert (
        run_json(capsys, "research", "plan", path, "--target", mine)["peak_bytes"]
        == run_json(capsys, "research", "plan", path)["peak_bytes"]
    )
    assert run_json(capsys, "research", "target", "generic")["target"]["alignment"] == 64


def test_zoo_is_listed_and_written(tmp_path: Path, capsys: Captured):
    """As a list, one entry, an ONNX file and a graph JSON; the files plan alike, and the seed decides the weights."""
    _, out, _ = run(capsys, "research", "zoo")
    assert any(line.startswith("nasnet_a_cifar ") for line in out.splitlines())
    assert run_json(capsys, "research", "zoo", "transformer")["parameters"]["layers"]["default"] == 6
    assert "paper" in run(capsys, "research", "zoo", "transformer")[1]
    name = "transformer:layers=1,width=8,heads=2,seq=4"
    for ending in ("onnx", "graph.json"):
        assert run(capsys, "research", "zoo", name, "-o", tmp_path / f"net.{ending}")[0] == 0
    peaks = {run_json(capsys, "research", "plan", m, "--target", "strict")["peak_bytes"]
             for m in (tmp_path / "net.onnx", tmp_path / "net.graph.json", f"zoo:{name}")}  # fmt: skip
    assert len(peaks) == 1
    run(capsys, "research", "zoo", name, "-o", tmp_path / "again.onnx")
    run(capsys, "research", "zoo", name, "-o", tmp_path / "other.onnx", "--seed", "1")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()
    assert (tmp_path / "other.onnx").read_bytes() != (tmp_path / "net.onnx").read_bytes()


def test_a_parameter_of_a_network_that_is_wrong(capsys: Captured):
    """Said by the listing too, not only once it is built."""
    status, out, err = run(capsys, "research", "zoo", "transformer:layers=x")
    assert (status, out) == (2, "")
    assert "use an integer from 1 to 20000" in err


def test_plan_of_a_zoo_network_writes_it(tmp_path: Path, capsys: Captured):
    """In either format."""
    name = "zoo:transformer:layers=1,width=8,heads=2,seq=4"
    for ending in ("onnx", "graph.json"):
        out = tmp_path / f"net.{ending}"
        assert run(capsys, "research", "plan", name, "-o", out, "--target", "strict")[0] == 0
        assert (
            lowtide.research.plan(out, target="strict").own_order_peak_bytes
            == lowtide.research.plan(name, target="strict").peak_bytes
        )


def test_allocate_prints_the_csv_with_offsets(tmp_path: Path, capsys: Captured):
    """The CSV on stdout, the summary on stderr; JSON with the keys of the contract."""
    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,3,16\nb,2,5,8\nc,4,6,16\n")
    status, out, err = run(capsys, "research", "allocate", path)
    assert (status, out.splitlines()[0]) == (0, "id,lower,upper,size,offset")
    assert err == "lowtide: height 24 B, proved optimal, 3 buffers\n"
    shown = run_json(capsys, "research", "allocate", path)
    assert set(shown) == {"height_bytes", "lower_bound_bytes", "optimal", "offsets", "seconds"}
    assert (shown["height_bytes"], set(shown["offsets"])) == (24, {"a", "b", "c"})


@pytest.mark.parametrize(("capacity", "status"), [("24", 0), ("23", 4)])
def test_allocate_within_a_capacity(tmp_path: Path, capsys: Captured, capacity: str, status: int):
    """A capacity below the bound is proved impossible."""
    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,3,16\nb,2,5,8\n")
    assert run(capsys, "research", "allocate", path, "--capacity", capacity)[0] == status


def test_a_function_of_the_users_own_is_run_and_reported(tmp_path: Path, capsys: Captured):
    """FILE.py:FUNCTION may return a path or a Graph; stderr says that it runs."""
    path = graph_file(tmp_path, branches())
    file = tmp_path / "mine.py"
    file.write_text(
        f"import lowtide\ndef path(): return {str(path)!r}\ndef graph():\n"
        "    return lowtide.Graph('g', (lowtide.Tensor(0, 4, lowtide.Kind.OUTPUT),), (lowtide.Op(0, (), (0,)),))\n"
    )
    status, out, err = run(capsys, "research", "plan", f"{file}:path", "--target", "strict")
    assert (status, "109 B" in out) == (0, True)
    assert err == f"lowtide: running path() of {file}: that is the user's own code\n"
    assert run_json(capsys, "research", "plan", f"{file}:graph", "--target", "strict")["model_sha256"]


@pytest.mark.slow
def test_progress_of_a_long_search_is_reported_on_stderr(tmp_path: Path, capsys: Captured):
    """Best, bound and seconds, in plain lines where there is no terminal."""
    path = graph_file(tmp_path, matrix_product(6))
    status, out, err = run(capsys, "research", "plan", path, "--time", "2.5", "--target", "strict")
    assert (status, "stopped by --time" in out) == (0, True)
    assert err.startswith("lowtide: lowest peak so far ")
    for word in (" %)", "at the least", " s\n"):
        assert word in err


@pytest.mark.parametrize("command", [name for name, _, _ in all_commands(parser_of_all())])
def test_help_has_examples(capsys: Captured, command: str):
    """Two to five for each command."""
    status, out, _ = run(capsys, *command.split(), "--help")
    assert status == 0
    examples = out.partition("examples:")[2].strip().splitlines()
    assert 2 <= len(examples) <= 5
    assert sum(f"lowtide {command}" in line for line in examples) >= 2


def test_version(capsys: Captured):
    """The package's own."""
    assert run(capsys, "--version")[:2] == (0, f"lowtide {lowtide.__version__}\n")


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: Captured):
    """Control characters in a model's names are written out, on stdout and on stderr."""
    made = branches()
    made["ops"][1]["name"] = "evil\x1b[2J"
    path = graph_file(tmp_path, made)
    _, out, _ = run(capsys, "inspect", path)
    assert "\x1b" not in out
    made["ops"][1]["inputs"] = [99]
    status, _, err = run(capsys, "inspect", graph_file(tmp_path, made))
    assert (status, "\x1b" in err) == (2, False)


@pytest.mark.parametrize("command", ["research plan", "check", "inspect", "research compare"])
def test_models_that_need_no_memory(tmp_path: Path, capsys: Captured, command: str):
    """No ops and a peak of nothing, while the outputs still have a place: no command stumbles."""
    empty = {"name": "empty", "tensors": [tensor(0, 4, "input"), tensor(1, 4, "output")], "ops": []}
    budget = ["--budget", "1KiB"] if command == "check" else []
    status, _, err = run(capsys, *command.split(), graph_file(tmp_path, empty), *budget)
    assert (status, err) == (0, "")


def test_a_line_break_in_a_name_stays_in_its_line(tmp_path: Path, capsys: Captured):
    """Tables keep their rows, whatever the model's names hold."""
    path = graph_file(tmp_path, branches() | {"name": "two\nlines", "ops": [
        o | {"name": f"a\nQ{o['id']}"} for o in branches()["ops"]
    ]})  # fmt: skip
    for command in (["research", "plan"], ["inspect"]):
        out = run(capsys, *command, path)[1]
        assert "two\\nlines" in out
        assert "\nlines" not in out
        assert "\nQ" not in out


def test_figures_of_a_report_have_units(tmp_path: Path, capsys: Captured):
    """Bytes are said to be bytes, thousands are parted, and a bound that is proved again is not said to be open."""
    large = branches()
    large["tensors"] = [t | {"size": 1000 * t["size"]} for t in large["tensors"]]
    path, plan_file = graph_file(tmp_path, large), tmp_path / "p.json"
    run(capsys, "research", "plan", path, "--plan", plan_file, "--target", "strict")
    out = run(capsys, "verify", path, plan_file, "--prove")[1]
    assert "109,000 of 109,000 B" in out
    assert "109000" not in out
    assert "not re-proved" not in out


@pytest.mark.slow
def test_an_impossible_budget_says_its_bound_once(tmp_path: Path, capsys: Captured):
    """A bound found on the way to a no is no second figure."""
    out = run(capsys, "check", "zoo:nasnet_a_imagenet", "--target", "strict", "--budget", "1KiB")[1]
    assert out.count("lower bound") == 1


def test_check_and_inspect_say_that_time_was_up(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    """A run that `--time` stopped says so."""
    _, out, _ = run(capsys, "inspect", graph_file(tmp_path, matrix_product(6)), "--target", "strict", "--time", "0.1")
    assert "stopped by --time" in out
    late = lowtide.Check(20, 10, 10, 5, False, "strict", "over_budget", "time")
    monkeypatch.setattr("lowtide.api.check", lambda *_, **__: late)
    _, out, _ = run(capsys, "check", graph_file(tmp_path, branches()), "--budget", "10")
    assert out.endswith("(target strict, lower bound 5 B, stopped by --time)\n")
    assert "stopped" not in run(capsys, "inspect", graph_file(tmp_path, branches()))[1]


def test_allocate_says_in_words_that_nothing_fits(tmp_path: Path, capsys: Captured):
    """A capacity below the load: status 4."""
    buffers = tmp_path / "b.csv"
    buffers.write_text("id,lower,upper,size\n1,0,2,5\n2,0,2,5\n")
    status, _, err = run(capsys, "research", "allocate", buffers, "--capacity", "9")
    assert status == 4
    assert "proved not to fit the capacity of 9 B" in err


def test_an_impossible_budget_names_the_reserve(tmp_path: Path, capsys: Captured):
    """The lower bound alone would fit; with the reserve nothing does."""
    path = graph_file(tmp_path, branches())
    status, out, _ = run(capsys, "check", path, "--target", "strict", "--budget", "110", "--reserve", "2")
    assert status == 4
    assert out.startswith("cannot fit untiled, the lower bound is 109 B, with the reserve 111 B: required 111 B")


def test_an_interrupted_placement_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best so far, a line that says so, status 130."""
    from lowtide.allocate import arena

    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,4\n")
    made = arena.BufferAllocation({"a": 4, "b": 20}, 24, 12, None, "first", {}, interrupted=True)
    monkeypatch.setattr(arena, "allocate_buffers", lambda *_: made)
    assert main(["research", "allocate", str(path), "--capacity", "20"]) == 130
    said = capsys.readouterr()
    assert "b,1,3,4,20" in said.out
    assert "interrupted before it was known whether it fits the capacity of 20 B" in said.err
    assert "lowtide: interrupted: this is the best placement so far" in said.err


def test_long_names_are_shortened_where_a_line_names_what_is_in_the_way(tmp_path: Path, capsys: Captured):
    """TFLite names run to hundreds of letters: their beginning and end are said. A line for CI is one line."""
    name = "model/" + "conv;" * 100 + "end"
    graph = {
        "name": "g",
        "tensors": [{"id": 0, "size": 4, "kind": "input"}, {"id": 1, "size": 64, "kind": "output", "name": name}],
        "ops": [{"id": 0, "inputs": [0], "outputs": [1], "name": name, "type": "Conv"}],
    }
    status, out, _ = run(capsys, "check", graph_file(tmp_path, graph), "--target", "strict", "--budget", "8")
    assert status == 4
    assert f"{shorten(name, 60)} 64 B does not fit the 8 B that are left" in out
    assert out.count("\n") == 1


def test_the_bound_of_a_tflm_budget_counts_what_the_runtime_adds(tmp_path: Path, capsys: Captured):
    """A bound below the budget does not explain why nothing fits; the sum with the persistent part does."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual(8).bytes())
    build = ("--target", "tflm,kernels=reference,interpreter=recording")
    plan = run_json(capsys, "research", "plan", path, *build)
    parts = plan["runtime_parts"]
    least = plan["lower_bound_bytes"] + parts["persistent"]
    required = max(parts["planned"] + parts["persistent"], parts["planning"])
    status, out, _ = run(capsys, "check", path, "--budget", least - 1, *build)
    assert status == 4
    of = f"a head of {plan['lower_bound_bytes']:,} B and {parts['persistent']:,} B for the tail"
    assert f"cannot fit untiled, {least:,} B at the least: {of}: required {required:,} B" in out
