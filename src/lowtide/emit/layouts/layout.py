"""The files of a project in the layout of a build system, a row of a table for each.

===========  =======================================================================================================
layout       what its rules ask for
===========  =======================================================================================================
``cmake``    `CMakeLists.txt` and a program for a host
``arduino``  `library.properties`, sources in `src`, sketches in folders of their names in `examples`
             (arduino.github.io/arduino-cli/latest/library-specification: "Library metadata", "Source code", "Library
             examples")
``zephyr``   `zephyr/module.yml`, which names the folders of `CMakeLists.txt` and of `Kconfig`
             (docs.zephyrproject.org/latest/develop/modules.html: "Build files located in the module")
``espidf``   `CMakeLists.txt` with ``idf_component_register``
             (docs.espressif.com/projects/esp-idf/en/stable/esp32/api-guides/build-system.html: "Component CMakeLists
             Files") and `idf_component.yml` (docs.espressif.com/projects/idf-component-manager: "Manifest File")
===========  =======================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

from lowtide.errors import InputError

if TYPE_CHECKING:
    from lowtide.emit.project import Project

_OF_HOST = ("main.c", "CMakeLists.txt")
_UNFUSED = '#pragma GCC optimize("fp-contract=off") /* no multiplication and addition in one */\n'


@dataclass(frozen=True)
class Layout:
    """A layout."""

    sources: str = ""  # begins the path of each source
    # Templates by the paths that they get, in which ``NAME`` is the model's name; none: the host's files stay
    added: Mapping[str, str] = field(default_factory=dict)
    has_library: bool = True  # whether CMSIS-NN is to be had there
    has_flags: bool = True  # whether its files set flags of the compiler; if not, sources of floats do

    def paths(self, name: str) -> dict[str, str]:
        """By each file that it writes: the project's file, or the template, that becomes it."""
        from lowtide.emit.project import files_of

        kept = files_of(name) if not self.added else [f for f in files_of(name) if f not in _OF_HOST]
        return {f"{self.sources}{file}": file for file in kept} | {
            path.replace("NAME", name): template for path, template in self.added.items()
        }


LAYOUTS = {
    "cmake": Layout(),
    "arduino": Layout(
        "src/",
        {"library.properties": "library.properties", "examples/NAME/NAME.ino": "sketch.ino"},
        has_library=False,
        has_flags=False,
    ),
    "zephyr": Layout(
        "src/",
        {"zephyr/module.yml": "module.yml", "CMakeLists.txt": "zephyr_CMakeLists.txt", "Kconfig": "Kconfig"},
    ),
    "espidf": Layout(
        "",
        {"CMakeLists.txt": "espidf_CMakeLists.txt", "idf_component.yml": "idf_component.yml"},
        has_library=False,
    ),
}
"""By name."""


def check_layout(layout: str, *, library: bool) -> None:
    """See that a layout is known, and has CMSIS-NN if the code calls it. Raises `InputError`."""
    if layout not in LAYOUTS:
        raise InputError(f"layouts are {', '.join(LAYOUTS)}; not {layout!r}")
    if library and not LAYOUTS[layout].has_library:
        raise InputError(f"--as {layout}: CMSIS-NN is not to be had there; leave it out, or --kernels c")


def laid_out(project: Project, layout: str, name: str) -> dict[str, str]:
    """Texts of a project by their paths in a layout. `name`: what the project's files begin with."""
    chosen = LAYOUTS[layout]
    library = "arm_nnfunctions.h" in project.files[f"{name}.c"]
    words = {
        "NAME": name, "UPPER": name.upper(), "CALL": project.call, "KERNELS": "\tdepends on CMSIS_NN\n" * library,
    }  # fmt: skip
    result = {}
    for path, file in chosen.paths(name).items():
        text = project.files.get(file)
        if text is None:
            text = files("lowtide.emit.layouts").joinpath(file).read_text(encoding="utf-8")
            for key, value in words.items():
                text = text.replace(f"@{key}@", value)
        elif not chosen.has_flags and "float" in text and path.endswith(".c"):
            text = text.replace("\n#include", f"\n{_UNFUSED}#include", 1)
        result[path] = text
    return result
