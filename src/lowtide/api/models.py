"""Where models come from: files, the zoo, and the user's own functions."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from lowtide.api.objects import Model, fix, fix_of_file, is_program
from lowtide.arguments import typed
from lowtide.errors import ForeignDimensionError, InputError
from lowtide.extensions import networks
from lowtide.graph import Graph
from lowtide.ops.effects import in_order_of_writes
from lowtide.sizes import NO_DIMS, Dims


def user_function(model: str | Path) -> tuple[Path, str] | None:
    """File and function of a model given as ``FILE.py:FUNCTION``; None if it is given otherwise."""
    file, separator, function = str(model).rpartition(":")
    return (Path(file), function) if separator and file.endswith(".py") else None


def has_operators(name: str) -> bool:
    """Whether a network of the zoo can be written as ONNX: some have sizes, and nothing that computes them."""
    return networks(name).build(name.removeprefix("zoo:")).runnable


def files_read(model: Model, *settings: object, external: bool = True) -> list[Path]:
    """Files that a call reads, which nothing it writes may replace. The model's own with the external data of ONNX,
    or the user's that makes it; and of `settings` (targets, boards) those that are TOML files. `external`: whether
    to look into the model for the data."""
    files = [Path(s) for s in settings if isinstance(s, str | Path) and str(s).endswith(".toml")]
    if not isinstance(model, str | Path) or str(model).startswith("zoo:"):
        return files
    function = user_function(model)
    if function is not None:
        return [function[0], *files]
    source = Path(model)
    return [source, *(source.parent / at for at in (external_locations(source) if external else ())), *files]


def external_locations(source: Path) -> list[str]:
    """Where an ONNX file says that its weights are, from its folder; none of one that cannot be read, of which `load`
    says what is wrong with it."""
    if source.suffix.lower() != ".onnx":
        return []
    from lowtide.files import open_bytes
    from lowtide.read.onnx.wire import parse_model
    from lowtide.write.onnx import external_files

    try:
        with open_bytes(source) as data:
            return external_files(parse_model(data, str(source)))
    except InputError:
        return []


@typed
def load(model: Model, dims: Dims = NO_DIMS) -> Graph:
    """Read a model; a graph is returned as it is.

    Parameters
    ----------
    model
        A `.onnx`, `.tflite`, `.pt2` or `.graph.json` file, ``zoo:NAME``, or ``FILE.py:FUNCTION``, which runs the user's
        own code: the function takes no arguments and returns a `Graph` or the path of a model; or an ExportedProgram
        of torch.
    dims
        Sizes of free dimensions, by name or as ``"INPUT:AXIS"``; and shapes by tensors' names, as in
        ``{"image": (1, 3, 224, 224)}``: all sizes of an input, or those of what only the running model knows.

    Raises
    ------
    InputError
        The file, the place in it and the remedy.
    """
    if isinstance(model, Graph):
        _no_dims(dims, model.source or model.name)
        return in_order_of_writes(model) if any(op.writes != () for op in model.ops) else model
    if is_program(model):
        from lowtide.api.exported import graph_of

        return graph_of(model, dims)
    if not isinstance(model, str | Path):
        raise InputError(fix(model))
    name = str(model)
    why = fix_of_file(name)
    if why is not None:
        raise InputError(why, name)
    if name.startswith("zoo:"):
        _no_dims(dims, name)
        return networks(name).build(name[4:]).graph()
    own = user_function(model)
    if own is not None:
        result = _call(*own)
        if isinstance(result, Graph):
            _no_dims(dims, name)
            return load(result if result.sha256 else replace(result, sha256=_digest(result)))
        return load(result, dims)
    from lowtide.read import read_model

    return read_model(model, dims)


def load_for(model: Model, dims: Dims = NO_DIMS, *, tiles: bool) -> Graph:
    """As `load`; to tile ops of a network of the zoo, with the operators of its ONNX form. Ids, sizes and digest stay
    those of `load`, so that plans of both are plans of one model."""
    graph = load(model, dims)
    from_zoo = tiles and isinstance(model, str | Path) and str(model).startswith("zoo:")
    if not from_zoo or not has_operators(str(model)):
        return graph
    from lowtide.read import read_model

    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        file = Path(folder) / "zoo.onnx"
        file.write_bytes(networks(str(model)).build(str(model)[4:]).onnx().SerializeToString())
        return replace(read_model(file), name=graph.name, source=graph.source, sha256=graph.sha256)


def load_own(model: Model, dims: Dims) -> tuple[Graph, set[str]]:
    """Read a model that has a use for some of these sizes of free dimensions, and say for which. Raises `InputError`:
    as `load`, but for sizes of dimensions that the model does not have."""
    own = dict(dims)
    while True:
        try:
            return load(model, own), set(own)
        except ForeignDimensionError as error:
            own = {name: size for name, size in own.items() if name not in error.names}


def open_dimensions(model: str | Path) -> list[str]:
    """Graph inputs of a .tflite file whose shape is left open there, each with the shape that is taken; else
    nothing. A file that cannot be read has none: `load` says what is wrong with it."""
    if not str(model).lower().endswith(".tflite"):
        return []
    from lowtide.files import open_bytes
    from lowtide.read.tflite.model import parse_tflite

    try:
        with open_bytes(Path(model)) as data:
            main = parse_tflite(data, str(model)).subgraphs[0]
    except InputError:
        return []
    inputs = [main.tensors[t] for t in main.inputs]
    return [f"{t.name!r} is planned as {list(t.shape)}" for t in inputs if t.dynamic]


def _no_dims(dims: Dims, place: str) -> None:
    if dims:
        raise ForeignDimensionError(f"it has no free dimensions; drop {', '.join(dims)}", place, tuple(dims))


def _digest(graph: Graph) -> str:
    """What ties a plan to a graph that came from no file."""
    import hashlib

    from lowtide.write.graph_json import graph_json_bytes

    return hashlib.sha256(graph_json_bytes(graph)).hexdigest()


def _call(file: Path, function: str) -> Graph | str | Path:
    """Run a function of the user's own file; what goes wrong in it is the user's to put right."""
    import runpy

    if not file.is_file():
        raise InputError("there is no such file", str(file))
    try:
        entry = runpy.run_path(str(file)).get(function)
        result = entry() if callable(entry) else None
    except (Exception, SystemExit) as error:  # it is the user's own code
        raise InputError(f"running {function}() raised {type(error).__name__}: {error}", str(file)) from error
    if not callable(entry):
        raise InputError(f"it defines no function {function!r}", str(file))
    if not isinstance(result, Graph | str | Path):
        why = fix(result)
        raise InputError(f"{function}() returned {type(result).__name__}; return a Graph or a path; {why}", str(file))
    if not isinstance(result, Graph) and user_function(result) is not None:
        raise InputError(
            f"{function}() returned {str(result)!r}; return a Graph or the path of a model file", str(file)
        )
    return result
