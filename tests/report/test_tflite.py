"""Text on a run of a TFLite model, from reports made by hand."""

from lowtide.report.running import tflite_run_text
from lowtide.run_reports import MeasuredArena, OutputComparison, PackageArena, RuntimeRun, TfliteRunReport

SAME = OutputComparison("y", equal=True, max_abs_difference=0.0, vacuous=False)


def _lines(*runs: RuntimeRun, planned: int | None = 512, required: int | None = 700) -> list[str]:
    said = None if planned is None else PackageArena(512, 680, exact=False, build="pip's build")
    return tflite_run_text(TfliteRunReport(runs, 2, planned, required, said, "32-bit builds")).splitlines()


def test_tflm_beside_the_plan():
    """Head, tail and smallest arena before and after; as predicted for what ran, and what the plan says of others."""
    run = RuntimeRun(
        "tflm", (SAME,), original=MeasuredArena(1024, 100, 1124, 1200), planned=MeasuredArena(512, 100, 612, 680)
    )
    lines = _lines(run)
    assert lines[0].split("  ")[0] == "TFLM"
    assert any(line.startswith("TFLM head") and "1,024 B" in line and "-50.0 %" in line for line in lines)
    assert sum(line.startswith("predicted") and line.endswith("equal to the byte") for line in lines) == 2
    assert any(line.startswith("in the plan") and "700 B: for 32-bit builds, not run here" in line for line in lines)
    assert not any(line.startswith("in the plan") for line in _lines(run, required=680))
    more = RuntimeRun(
        "tflm", (SAME,), original=MeasuredArena(1024, 100, 1124, 1200), planned=MeasuredArena(512, 100, 612, 700)
    )
    assert any(line.endswith("20 B more is needed") for line in _lines(more))


def test_litert_and_what_cannot_be_seen():
    """Its arena, and that nothing is said of XNNPACK's workspace."""
    run = RuntimeRun("litert", (SAME,), original_bytes=900, planned_bytes=700)
    assert any(
        "900 B -> 700 B" in line and line.endswith("as planned, to the byte") for line in _lines(run, planned=None)
    )
    assert any("cannot be measured" in line for line in _lines(run))


def test_a_runtime_that_does_not_run_it():
    """Its own reason, or that two runs of the original differ."""
    assert "does not run it: no such kernel" in _lines(RuntimeRun("tflm", refused="no such kernel"))[0]
    assert "no conclusion" in _lines(RuntimeRun("tflm", deterministic=False))[0]
