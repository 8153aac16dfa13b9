"""The errors a user can meet. Each message is one line: the file, the place in it, and the remedy."""

from __future__ import annotations

import shlex
import traceback


class LowtideError(Exception):
    """Base of every error that lowtide raises on purpose."""

    exit_status = 1


class InputError(LowtideError, ValueError):
    """The model, the plan, the target or the call is wrong (exit status 2).

    Parameters
    ----------
    message
        What is wrong and how to put it right, in one line.
    place
        Where: a file, or a file and an op or tensor in it. Put before the message.
    """

    exit_status = 2

    def __init__(self, message: str, place: str = "") -> None:
        text = f"{place}: {message}" if place else message
        super().__init__(" ".join(text.split()))


class ForeignDimensionError(InputError):
    """Sizes are given for free dimensions that the model does not have; `names` are those."""

    def __init__(self, message: str, place: str, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(message, place)

    def __reduce__(self) -> tuple[object, ...]:
        return _foreign, (str(self), self.names)


def _foreign(text: str, names: tuple[str, ...]) -> ForeignDimensionError:
    return ForeignDimensionError(text, "", names)


class FreeDimensionError(InputError):
    """Dimensions of the model have no size.

    `sizes` are usual ones with which it can be read; `batches` are the names of those that count examples.
    """

    def __init__(self, message: str, place: str, sizes: dict[str, int], batches: tuple[str, ...] = ()) -> None:
        self.sizes, self.batches = sizes, batches
        super().__init__(message, place)

    def __reduce__(self) -> tuple[object, ...]:
        return _free, (str(self), self.sizes, self.batches)


def _free(text: str, sizes: dict[str, int], batches: tuple[str, ...]) -> FreeDimensionError:
    return FreeDimensionError(text, "", sizes, batches)


class NoOrderFoundError(InputError):
    """A search that was not cut short met no order in which every op fits with what comes in ahead of it."""


def install_command(extra: str) -> str:
    """What installs the packages of an extra, wherever lowtide itself was installed from."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = [text.partition(";") for text in requires("lowtide") or ()]
    except PackageNotFoundError:  # it runs from its sources
        wanted = []
    names = [name.strip() for name, _, only in wanted if only.replace("'", '"').strip() == f'extra == "{extra}"']
    return f"pip install {' '.join(shlex.quote(name) for name in names) or shlex.quote(f'.[{extra}]')}"


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message has the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self._parts = (package, extra, purpose)
        super().__init__(f"{purpose} needs {package}: {install_command(extra)}")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), self._parts


class InternalError(RuntimeError):
    """lowtide contradicts itself: a bug of its own, which no result may hide."""


def sound(bound: int, attained: int) -> int:
    """A lower bound, which what was attained cannot be below. Raises `InternalError`: it is: a rule that proved the
    bound does not hold.

    >>> sound(3, 5)
    3
    """
    if bound > attained:
        raise InternalError(f"a lower bound of {bound} bytes is above {attained} bytes, which were attained")
    return bound


class VerificationError(LowtideError):
    """A plan does not hold (exit status 5).

    Parameters
    ----------
    failure
        Short name of the broken rule, for example ``"overlap"``.
    message
        The op, tensors, steps and bytes concerned.

    Attributes
    ----------
    report
        What held before it, as `lowtide.verify` would have returned; None if there is nothing.
    """

    exit_status = 5
    report: object = None

    def __init__(self, failure: str, message: str) -> None:
        self.failure = failure
        self._message = message
        super().__init__(f"{failure}: {message}")

    def __reduce__(self) -> tuple[type[VerificationError], tuple[str, str]]:
        return type(self), (self.failure, self._message)


def raised_at(error: BaseException, *apart: str) -> str:
    """File and line in which code of the user's raised, ``file.py:7``: the innermost that is in none of these folders;
    empty if there is none.

    >>> try:
    ...     raise KeyError
    ... except KeyError as error:
    ...     raised_at(error, "/")[-2:]
    ':2'
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(apart)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def first_line(error: BaseException | None) -> str:
    """The first line of what another library says, at most 300 letters; its kind if it says nothing.

    >>> first_line(ValueError("bad\\n  at 0x7f"))
    'bad'
    """
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
