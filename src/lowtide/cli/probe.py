"""The command `probe`."""

from __future__ import annotations

import argparse

from lowtide import api
from lowtide.cli.terminal import show, show_json
from lowtide.cli.values import dims_of


def run(options: argparse.Namespace) -> int:
    """Print the maps of a model's ops and what proving them showed; 5 if one is wrong."""
    dims = dims_of(options.dims)
    probing = api.probe(options.model, dims=dims, seed=options.seed, most_macs=options.most_macs)
    options.line.end()
    if options.json:
        show_json(probing)
    else:
        from lowtide.report.measuring import probing_text

        show(probing_text(probing))
    return probing.exit_status
