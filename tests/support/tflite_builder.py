"""The builder of small .tflite files, where it can be had; modules that import this are skipped elsewhere."""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert", reason="pip install 'lowtide[tflite]'")
pytest.importorskip("flatbuffers", reason="pip install 'lowtide[tflite]'")

from lowtide.bench.tflite_net import SAME, VALID, Net, branches, residual, s

__all__ = ["SAME", "VALID", "Net", "branches", "residual", "s"]
