"""Checks plans, slowly and obviously, with nothing that planned them: graph, plan, target and opset alone."""
