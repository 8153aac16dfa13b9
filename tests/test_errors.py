"""The errors a user meets: one line each, with the exit status of the contract."""

import pickle

import pytest

from lowtide import errors
from lowtide.errors import InputError, LowtideError, MissingExtraError, NoOrderFoundError, VerificationError, first_line


def test_messages_are_one_line():
    """Whatever is in them, and with the place first."""
    assert str(InputError("a\n  b\tc", "m.onnx")) == "m.onnx: a b c"
    assert str(InputError("alone")) == "alone"
    assert "\n" not in str(MissingExtraError("ortools", "solvers", "this"))
    assert "pip install 'ortools>=" in str(MissingExtraError("ortools", "solvers", "this"))


@pytest.mark.parametrize(
    ("error", "status"),
    [(LowtideError("x"), 1), (InputError("x"), 2), (NoOrderFoundError("x"), 2), (VerificationError("overlap", "x"), 5)],
)
def test_exit_statuses(error: LowtideError, status: int):
    """Wrong input is a ValueError as well, so that nobody has to know lowtide's own."""
    assert error.exit_status == status
    assert isinstance(error, ValueError) == (status == 2)


def test_a_broken_rule_has_its_name():
    """`failure` is what the checker's tests and the table of checks go by."""
    error = VerificationError("overlap", "a and b")
    assert (error.failure, str(error)) == ("overlap", "overlap: a and b")


def test_the_first_line_of_others():
    """At most 300 letters; the kind where nothing is said; None has a kind, too."""
    assert first_line(ValueError("x" * 400 + "\ny")) == "x" * 300
    assert first_line(KeyError()) == "KeyError"
    assert first_line(None) == "None"


@pytest.mark.parametrize(
    "error",
    [
        LowtideError("m"), InputError("no", "m.onnx"), NoOrderFoundError("no"), MissingExtraError("a", "b", "c"),
        VerificationError("overlap", "a and b"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_errors_cross_processes(error: LowtideError):
    """Pickled and back, an error says the same: a worker's is the caller's."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.exit_status) == (type(error), str(error), error.exit_status)
    assert getattr(again, "failure", None) == getattr(error, "failure", None)


def test_all_are_lowtides():
    """Whoever catches LowtideError catches every error that a user can meet, and no bug."""
    kinds = {k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, BaseException)}
    assert {k for k in kinds if not issubclass(k, LowtideError)} == {errors.InternalError}


def test_a_bound_above_what_was_attained_is_a_bug():
    """It is not said, whatever else is."""
    assert errors.sound(5, 5) == 5
    with pytest.raises(errors.InternalError, match="a lower bound of 6 bytes is above 5 bytes"):
        errors.sound(6, 5)
    assert not issubclass(errors.InternalError, LowtideError)
