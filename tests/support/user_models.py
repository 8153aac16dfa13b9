"""Models as people bring them, small: from timm, from transformers by their configuration, and some of our own.

Each entry makes a model, its loss function and a batch. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Made = tuple[Any, Any, tuple[Any, ...]]
"""Model, loss function, batch."""

TIMM = {
    "resnet18": 64, "mobilenetv3_small_050": 64, "efficientnet_b0": 64, "convnext_atto": 64, "densenet121": 64,
    "regnety_002": 64, "ghostnet_050": 64, "mobilevit_xxs": 64, "vit_tiny_patch16_224": 224, "mixer_s32_224": 224,
    "swin_tiny_patch4_window7_224": 224, "coatnet_nano_rw_224": 224,
}  # fmt: skip
"""Models of timm and the side of their image."""

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_WORDS = {"vocab_size": 100, "max_position_embeddings": 64, **_SIZES}


def _timm(name: str, side: int) -> Callable[[], Made]:
    def make() -> Made:
        torch = import_module("torch")
        model = import_module("timm").create_model(name, num_classes=10)
        batch = torch.randn(2, 3, side, side), torch.tensor([1, 7])
        return model, torch.nn.functional.cross_entropy, batch

    return make


def _transformer(name: str, options: Mapping[str, Any], inputs: str = "tokens") -> Callable[[], Made]:
    def make() -> Made:
        torch, transformers = import_module("torch"), import_module("transformers")
        words = dict(options)
        kind = words.pop("model")
        model = getattr(transformers, kind)(getattr(transformers, name)(**words))
        tokens = torch.randint(5, 100, (2, 16))
        batch: dict[str, Any] = {"input_ids": tokens, "labels": tokens}
        if inputs == "image":
            batch = {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.tensor([0, 1])}
        elif inputs == "map":
            batch = {"pixel_values": torch.randn(1, 3, 64, 64), "labels": torch.randint(0, 2, (1, 64, 64))}
        elif inputs == "sound":
            batch = {"input_features": torch.randn(1, 16, 64), "labels": tokens[:1]}
        elif inputs == "states":
            batch |= {"output_hidden_states": True}
        return model, lambda output: output.loss, (batch,)

    return make


TRANSFORMERS: Mapping[str, Callable[[], Made]] = {
    "gpt2": _transformer("GPT2Config", {
        "model": "GPT2LMHeadModel", "vocab_size": 100, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "bert": _transformer("BertConfig", {"model": "BertForMaskedLM", **_WORDS}),
    "roberta": _transformer("RobertaConfig", {"model": "RobertaForMaskedLM", **_WORDS, "pad_token_id": 1}),
    "llama": _transformer("LlamaConfig", {"model": "LlamaForCausalLM", "num_key_value_heads": 2, **_WORDS}),
    "qwen3": _transformer(
        "Qwen3Config", {"model": "Qwen3ForCausalLM", "num_key_value_heads": 2, "head_dim": 8, **_WORDS}, "states"),
    "mistral": _transformer("MistralConfig", {"model": "MistralForCausalLM", "num_key_value_heads": 2, **_WORDS}),
    "mixtral": _transformer("MixtralConfig", {
        "model": "MixtralForCausalLM", "num_key_value_heads": 2, "num_local_experts": 2, **_WORDS}),
    "gemma": _transformer("GemmaConfig", {
        "model": "GemmaForCausalLM", "num_key_value_heads": 2, "head_dim": 8, **_WORDS}),
    "t5": _transformer("T5Config", {
        "model": "T5ForConditionalGeneration", "vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
        "num_heads": 4, "decoder_start_token_id": 0}),
    "mamba": _transformer("MambaConfig", {
        "model": "MambaForCausalLM", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "modernbert": _transformer("ModernBertConfig", {
        "model": "ModernBertForMaskedLM", **_WORDS, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}),
    "whisper": _transformer("WhisperConfig", {
        "model": "WhisperForConditionalGeneration", "vocab_size": 100, "num_mel_bins": 16, "d_model": 32,
        "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 32, "max_target_positions": 64,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
        "suppress_tokens": None, "begin_suppress_tokens": None}, "sound"),
    "vit": _transformer("ViTConfig", {"model": "ViTForImageClassification", "image_size": 64, **_SIZES}, "image"),
    "segformer": _transformer("SegformerConfig", {
        "model": "SegformerForSemanticSegmentation", "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32],
        "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32}, "map"),
}  # fmt: skip
"""Language, speech and image models; qwen3 is asked for its hidden states."""


def _own(make_model: Callable[[Any], Any], shape: tuple[int, ...]) -> Callable[[], Made]:
    def make() -> Made:
        torch = import_module("torch")
        return make_model(torch), None, (torch.randn(*shape),)

    return make


def _stateful(torch: Any) -> Any:
    """Counts, keeps what it saw, makes a cache and puts in a hook, all at its first calls."""

    class Cache:
        def __init__(self) -> None:
            self.keys: list[Any] = []
            self.sizes = {"keys": [0]}

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
            self.calls, self.seen, self.kept, self.cache = 0, [], {"last": [torch.zeros(4)]}, Cache()
            self.register_buffer("scale", torch.ones(4), persistent=False)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen.append(x)
            self.kept["last"][0] = x
            self.cache.keys.append(x)
            self.cache.sizes["keys"].append(len(self.cache.keys))
            if not hasattr(self, "hooked"):
                self.hooked = self.layer.register_forward_hook(lambda module, inputs, output: output * 2)
            return (self.norm(self.layer(x)) * self.scale).sum()

    return Net()


def _drawing(torch: Any) -> Any:
    """Drops layers by Python's random numbers."""
    random = import_module("random")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(4)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                if random.random() < 0.8:
                    x = torch.nn.functional.dropout(layer(x), 0.1)
            return (x * self.layers[0].weight.sum()).sum()

    return Net()


def _recurrent(torch: Any) -> Any:
    """Layers that hold their weights a second time, in a list, and a weight that is computed."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = torch.nn.GRU(4, 8, 2, batch_first=True)
            self.head = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 1))

        def forward(self, x: Any) -> Any:
            return self.head(self.gru(x)[0]).sum()

    return Net()


def _frozen_half(torch: Any) -> Any:
    """Half of it frozen and in evaluation mode, with gradients there already."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Dropout(0.2), torch.nn.Conv2d(8, 8, 3)
    )
    net[0].requires_grad_(False)
    net[1].eval()
    net[3].weight.grad = torch.ones_like(net[3].weight)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            return self.net(x).square().mean()

    return Net()


def _spectral(torch: Any) -> Any:
    """A hook before each call that moves a buffer, as torch's older spectral norm has it."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.utils.spectral_norm(torch.nn.Linear(4, 4))

        def forward(self, x: Any) -> Any:
            return self.layer(x).sum()

    return Net()


def _attention(torch: Any) -> Any:
    """torch's own encoder."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: Any) -> Any:
            return self.encoder(x).square().mean()

    return Net()


OWN: Mapping[str, Callable[[], Made]] = {
    "stateful": _own(_stateful, (3, 4)),
    "drawing": _own(_drawing, (3, 4)),
    "recurrent": _own(_recurrent, (2, 5, 4)),
    "frozen half": _own(_frozen_half, (2, 3, 8, 8)),
    "spectral": _own(_spectral, (3, 4)),
    "attention": _own(_attention, (2, 5, 16)),
}

MODELS: Mapping[str, Callable[[], Made]] = {
    **{f"timm/{name}": _timm(name, side) for name, side in TIMM.items()},
    **{f"transformers/{name}": make for name, make in TRANSFORMERS.items()},
    **{f"own/{name}": make for name, make in OWN.items()},
}
"""All of them."""
