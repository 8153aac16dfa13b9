"""Multipliers and activations as TFLM works them out."""

from __future__ import annotations

import doctest
import subprocess
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.emit import arithmetic
from support.emit_nets import compiler, sanitizers


@given(st.floats(2**-30, 2**20, allow_nan=False))
def test_a_multiplier_is_the_nearest_of_31_bits(real: float) -> None:
    """By fractions: half a unit of the last place at most, and the first bit is set."""
    multiplier, shift = arithmetic.quantized(real)
    assert 1 << 30 <= multiplier < 1 << 31
    unit = Fraction(2) ** (shift - 31)
    assert abs(multiplier * unit - Fraction(real)) <= unit / 2 or multiplier == 1 << 30


@pytest.mark.parametrize(("real", "wanted"), [(0.0, (0, 0)), (2.0**-40, (0, 0)), (1.0, (1 << 30, 1))])
def test_multipliers_at_the_ends(real: float, wanted: tuple[int, int]) -> None:
    """Nothing, and what is too small for 31 bits."""
    assert arithmetic.quantized(real) == wanted


@given(st.integers(1, 4000), st.sampled_from([0.01, 0.37, 2.5]))
def test_a_mean_is_the_sum_by_the_count(count: int, scale: float) -> None:
    """The factor is right to one part in 2^28."""
    multiplier, shift = arithmetic.mean(scale, 0.2, count)
    wanted = Fraction(np.float32(scale).item()) / Fraction(np.float32(0.2).item()) / count
    assert abs(multiplier * Fraction(2) ** (shift - 31) / wanted - 1) < Fraction(1, 1 << 28)


def test_activations_are_within_8_bits() -> None:
    """Whatever the zero point."""
    for zero in (-128, -5, 0, 127):
        for kind in range(4):
            low, high = arithmetic.activation(kind, 0.001, zero)
            assert -128 <= low <= high <= 127


def test_its_examples_run() -> None:
    """What the docstrings print."""
    from lowtide.emit import places

    assert doctest.testmod(arithmetic).failed == 0
    assert doctest.testmod(places).failed == 0


def scaled(value: int, factor: arithmetic.Multiplier) -> int:
    """A value times a factor, with both roundings, in whole numbers without end."""
    multiplier, shift = factor
    product = (value << max(shift, 0)) * multiplier
    product += 1 << 30 if product >= 0 else 1 - (1 << 30)
    value = product >> 31 if product >= 0 else -(-product >> 31)
    down = max(-shift, 0)
    mask = (1 << down) - 1
    return (value >> down) + ((value & mask) > (mask >> 1) + (value < 0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FULLY_CONNECTED", "CONV_2D"])
def test_multipliers_are_those_of_tflm(tmp_path: Path, kind: str) -> None:
    """Sums, made by biases alone, that one more in the last place of a multiplier would round to another number."""
    pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
    from support.emit_nets import tflm_outputs
    from support.tflite_builder import Net, s

    told_apart = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x_scale, w_scale, y_scale = (float(np.float32(v)) for v in (*rng.uniform(1e-4, 2e-4, 2), rng.uniform(0.1, 0.4)))
        factor = arithmetic.convolution(x_scale, w_scale, y_scale)
        real = factor[0] * 2.0 ** (factor[1] - 31)
        near = [int((k + 0.5) / real) + d for k in range(-90, 90, 9) for d in range(-3, 4)]
        near = [v for v in near if abs(v) < 1 << 30]
        other = (factor[0] + 1, factor[1])
        told_apart += sum(scaled(v, factor) != scaled(v, other) for v in near)
        net = Net()
        shape, weights = ((1, 1), (len(near), 1)) if kind == "FULLY_CONNECTED" else ((1, 1, 1, 1), (len(near), 1, 1, 1))
        x = net.tensor(shape, scale=x_scale)
        w = net.tensor(weights, data=np.zeros(len(near)), scale=w_scale)
        b = net.tensor((len(near),), "int32", near, scale=x_scale * w_scale)
        y = net.tensor((*shape[:-1], len(near)), scale=y_scale)
        options = s.FullyConnectedOptionsT() if kind == "FULLY_CONNECTED" else s.Conv2DOptionsT()
        if kind == "CONV_2D":
            options.strideH = options.strideW = 1
        net.op(kind, [x, w, b], [y], options)
        net.ends([x], [y])
        model = tmp_path / f"{seed}.tflite"
        model.write_bytes(net.bytes())
        made = np.frombuffer(tflm_outputs(model, [[np.zeros(shape, np.int8)]]), np.int8)
        assert made.tolist() == [max(-128, min(127, scaled(v, factor))) for v in near]
    assert told_apart > 10


@pytest.mark.slow
def test_bounds_of_activations_are_those_of_tflm(tmp_path: Path) -> None:
    """Of scales by which six is a half more than a whole number, but for the last place."""
    pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
    from support.emit_nets import tflm_outputs
    from support.tflite_builder import Net, s

    for k in range(10, 110, 7):
        scale = float(np.float32(6 / (k + 0.5)))
        net = Net()
        a, b, y = (net.tensor((1, 1, 1, 1), scale=v) for v in (1.0, 1.0, scale))
        options = s.AddOptionsT()
        options.fusedActivationFunction = 3
        net.op("ADD", [a, b], [y], options)
        net.ends([a, b], [y])
        model = tmp_path / f"{k}.tflite"
        model.write_bytes(net.bytes())
        feed = [np.full((1, 1, 1, 1), 100, np.int8)] * 2
        assert tflm_outputs(model, [feed]) == bytes([arithmetic.activation(3, scale, 0)[1]])


def once(value: int, factor: arithmetic.Multiplier) -> int:
    """A value times a factor, rounded once, halves up: as TFLite's sources have it for TFLITE_SINGLE_ROUNDING."""
    multiplier, shift = factor
    return (value * multiplier + (1 << (30 - shift))) >> (31 - shift)


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("single", [False, True])
def test_the_code_rounds_twice_or_once(tmp_path: Path, single: bool) -> None:
    """The C of one factor after another, beside whole numbers without end."""
    rng = np.random.default_rng(2)
    cases = [(int(v), arithmetic.quantized(float(f))) for v, f in zip(
        rng.integers(-(1 << 24), 1 << 24, 4000), 2.0 ** rng.uniform(-20, 4, 4000), strict=True,
    )]  # fmt: skip
    rows = ", ".join(f"{{{value}, {m}, {s}}}" for value, (m, s) in cases)
    pieces = [
        files("lowtide.emit").joinpath("c", f"{name}.c").read_text() for name in ("fixed", "scaled", "scaled_down")
    ]
    main = f"""
static const int32_t cases[{len(cases)}][3] = {{{rows}}};
int main(void)
{{
    int i;
    for (i = 0; i < {len(cases)}; i++) {{
        int32_t value = scaled(cases[i][0], cases[i][1], cases[i][2]);
        if (cases[i][2] < 0 && scaled_down(cases[i][0], cases[i][1], -cases[i][2]) != value) return 1;
        printf("%ld\\n", (long)value);
    }}
    return 0;
}}
"""
    (tmp_path / "s.c").write_text("#include <stdint.h>\n#include <stdio.h>\n" + "".join(pieces) + main)
    flags = [f"-DMODEL_SINGLE_ROUNDING={int(single)}", "-DINLINED=static"]
    subprocess.run([compiler() or "cc", "-std=c99", *flags, "s.c", "-o", "s"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "s"], capture_output=True, text=True, check=True).stdout
    round_ = once if single else scaled
    assert [int(line) for line in shown.split()] == [round_(value, factor) for value, factor in cases]
    assert any(once(value, factor) != scaled(value, factor) for value, factor in cases)


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None or not sanitizers(), reason="no C compiler with sanitizers on this machine")
@pytest.mark.parametrize(
    "wrong", ["items[k]", "(int)((unsigned)k << 28) << k", "*(int *)((char *)items + 1)", "-k - m"]
)
def test_what_c_does_not_define_ends_a_program(tmp_path: Path, wrong: str) -> None:
    """Behind an array, shifts and sums that overflow, an address that is not aligned."""
    code = "#include <limits.h>\nint main(int k, char **v)\n{\n    int items[4] = {0}, m = INT_MAX;\n"
    (tmp_path / "u.c").write_text(
        f"{code}    (void)v;\n    k += 7;\n    m += k - 8;\n    return {wrong} == 12345;\n}}\n"
    )
    for flags, fails in (((), False), (sanitizers(), True)):
        subprocess.run([compiler() or "cc", "-w", *flags, "u.c", "-o", "u"], cwd=tmp_path, check=True)
        assert (subprocess.run([tmp_path / "u"], capture_output=True, check=False).returncode != 0) == fails
