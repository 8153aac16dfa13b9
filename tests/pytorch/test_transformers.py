"""Language models as people bring them: from `transformers`, by their configuration, nothing downloaded."""

from __future__ import annotations

import copy
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step
from lowtide.torch.rows import regions
from lowtide.torch.search import largest_op

torch: Any = None
transformers: Any = None
with suppress(ImportError):
    torch = import_module("torch")
    transformers = import_module("transformers")

pytestmark = [pytest.mark.skipif(transformers is None, reason="needs torch and transformers"), pytest.mark.slow]


def language_model(name: str) -> Any:
    """Two small layers of a kind."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    if name == "gpt2":
        config = transformers.GPT2Config(vocab_size=500, n_positions=64, n_embd=32, n_layer=2, n_head=4)
        return transformers.GPT2LMHeadModel(config)
    if name == "bert":
        return transformers.BertForMaskedLM(
            transformers.BertConfig(vocab_size=500, max_position_embeddings=64, **sizes)
        )
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=500, num_key_value_heads=2, **sizes))
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=500, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
    )


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "t5"])
def test_a_step_within_a_budget_is_eagers_bit_by_bit(name: str) -> None:
    """With dropout, AdamW, half of what can be saved; and the head is found as a region over all tokens."""
    torch.manual_seed(0)
    inner = language_model(name)

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, tokens: Any, labels: Any) -> Any:
            return self.inner(input_ids=tokens, labels=labels).loss

    model = Loss()
    eager = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(m.parameters()) for m in (model, eager))
    tokens = torch.randint(500, (2, 32))
    own = compile_step(model, None, (tokens, tokens), optimizer=optimizer, options=StepOptions(measure=False, time=0))
    budget = (own.plan.floor_bytes + own.plan.peak_bytes) // 2
    step = compile_step(
        model, None, (tokens, tokens), optimizer=optimizer, options=StepOptions(measure=False, time=3), budget=budget
    )
    assert step.predicted_peak_bytes <= budget
    torch.manual_seed(0)
    loss = step(tokens, tokens)
    torch.manual_seed(0)
    expected = eager(tokens, tokens)
    expected.backward()
    other.step()
    assert torch.equal(loss, expected.detach())
    for a, b in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    those = regions(torch, own.program, own.graph, largest_op(own.graph)[1])
    assert those[0].rows == 64
