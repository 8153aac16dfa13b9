"""JAX programs as XLA schedules them, as texts that lowtide reads.

    python bench/xla.py FOLDER --lower    # in an environment with jax; writes the texts to FOLDER
    python bench/orders.py MODELS         # plans them; MODELS/graphs/xla is FOLDER; needs no jax

26 programs (`xla_programs.py`), each compiled twice for CPU: with XLA's default scheduler, which spreads work over
cores, and with its memory scheduler. Beside each text are XLA's own figures (`memory_analysis()`).
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

SCHEDULERS = {"default": "", "memory": "--xla_cpu_enable_concurrency_optimized_scheduler=false"}


def lower(folder: Path, scheduler: str) -> None:
    """Compile every program, and write its text and XLA's figures."""
    import jax

    from xla_programs import programs

    for program in programs():
        run, given, donated = program.make()
        compiled = jax.jit(run, donate_argnums=donated).lower(*given).compile()
        figures = compiled.memory_analysis()
        name = f"{program.name}.{scheduler}"
        (folder / f"{name}.hlo.txt").write_text(compiled.as_text(), encoding="utf-8")
        sizes = {
            key: getattr(figures, f"{key}_size_in_bytes") for key in ("temp", "output", "alias", "argument")
        }  # fmt: skip
        what = {"what": program.what, "jax": jax.__version__, **sizes}
        (folder / f"{name}.json").write_text(json.dumps(what), encoding="utf-8")
        print(name, file=sys.stderr)


def main() -> None:
    """Compile the programs, with each scheduler in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="texts of XLA")
    parser.add_argument("--lower", action="store_true", required=True, help="compile with jax and write the texts")
    parser.add_argument("--one", choices=SCHEDULERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        lower(options.folder, options.one)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for scheduler, flag in SCHEDULERS.items():  # a process each: XLA reads its flags once
        flags = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
        command = [sys.executable, __file__, str(options.folder), "--lower", "--one", scheduler]
        subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}, check=True)


if __name__ == "__main__":
    main()
