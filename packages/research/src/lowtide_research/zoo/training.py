"""A training step of a GPT-like decoder: forward, backward, gradients summed over micro-batches, clipping and Adam.

Sizes and dependencies only, in the order in which a framework runs them op by op: activations wait for their use in
the backward pass, gradients of the parameters from there to the optimiser, and between them come short-lived
temporaries of every size. That is what fragments the arena of a training step. Activations are of two bytes (bfloat16),
masks of one, statistics and summed gradients of four; the parameters and Adam's moments live elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.values import check_multiple

HALF, FULL = 2, 4  # bytes of an activation, and of a statistic or a summed gradient

FEED_FORWARD = 4

Backward = Callable[[Value], Value]  # from the gradient of what a block made to the gradient of what it read


def build_gpt_training(
    name: str, *, layers: int, width: int, heads: int, seq: int, vocabulary: int, micro: int, ahead: int, seed: int
) -> Net:
    """One step of `micro` micro-batches of `seq` tokens or less, down to half as many, drawn at random. The forward
    pass is `ahead` micro-batches before the backward pass, as in a pipeline of so many stages. Raises `InputError`:
    `heads` does not divide `width`."""
    check_multiple(name, width, heads, "width", "heads")
    net, random = Net(name, merge=False, runnable=False), Random(seed)
    sums = _Gradients(net)
    tokens = net.input("tokens", (micro * seq * FULL,), "uint8")
    losses: list[Value] = []
    waiting: list[Callable[[], None]] = []
    for m in range(micro + ahead):
        if m < micro:
            with net.scope(f"micro{m}"):
                batch = _MicroBatch(sums, width, heads, random.randint((seq + 1) // 2, seq))
                loss, back = batch.forward(tokens, layers, vocabulary)
            losses.append(loss)
            waiting.append(back)
        if m >= ahead:
            with net.scope(f"micro{m - ahead}/backward"):
                waiting.pop(0)()
    with net.scope("optimiser"):
        net.output(sums.update(losses))
    return net


class _Gradients:
    """The network so far, and the sum of each parameter's gradients with its number of elements."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.sums: dict[str, tuple[Value, int]] = {}

    def op(self, kind: str, inputs: list[Value], size: int) -> Value:
        return self.net.op(kind, inputs, (size,), dtype="uint8")

    def add(self, parameter: str, gradient: Value, elements: int) -> None:
        """Add a gradient to the sum that is kept in full precision until the optimiser has read it."""
        full = self.op("Cast", [gradient], elements * FULL)
        if parameter in self.sums:
            full = self.op("Add", [self.sums[parameter][0], full], elements * FULL)
        self.sums[parameter] = (full, elements)

    def update(self, losses: list[Value]) -> Value:
        """Clip by the norm of all gradients, then Adam, parameter by parameter; each step says when it is done."""
        op = self.op
        norms = [op("ReduceSumSquare", [g], FULL) for g, _ in self.sums.values()]
        done = op("ClipFactor", [*norms, *losses], FULL)
        for g, elements in self.sums.values():
            size = elements * FULL
            clipped = op("Mul", [g, done], size)
            moment = op("Moment", [clipped], size)
            deviation = op("Sqrt", [op("SecondMoment", [clipped], size)], size)
            done = op("Update", [op("Div", [moment, deviation], size), done], FULL)
        return done


class _MicroBatch:
    """One run through the network. Each part gives what it made and how its gradient goes back."""

    def __init__(self, sums: _Gradients, width: int, heads: int, tokens: int) -> None:
        self.op, self.gradient, self.net = sums.op, sums.add, sums.net
        self.width, self.tokens = width, tokens
        self.activation = tokens * width * HALF
        self.scores = tokens * tokens * heads * HALF
        self.statistics = tokens * FULL

    def forward(self, tokens: Value, layers: int, vocabulary: int) -> tuple[Value, Callable[[], None]]:
        """Give the loss, and what runs the backward pass."""
        net, op, width = self.net, self.op, self.width
        ids = op("Slice", [tokens], self.tokens * FULL)
        x = op("Gather", [ids], self.activation)
        x = op("PositionEmbedding", [x], self.activation)
        tape: list[tuple[str, Backward]] = []
        for i in range(layers):
            for block, half in ((self.attention, "attention"), (self.feed_forward, "feed_forward")):
                name = f"layer{i}/{half}"
                with net.scope(name):
                    x, back = block(name, x)
                tape.append((name, back))
        x, back_norm = self.layer_norm("head", x)
        logits, back_logits = self.dense("logits", x, width, vocabulary, bias=False)
        log_softmax = op("LogSoftmax", [logits], self.tokens * vocabulary * FULL)

        def backward() -> None:
            dy = op("LossGradient", [log_softmax, ids], self.tokens * vocabulary * HALF)
            dy = back_norm(back_logits(dy))
            for name, back in reversed(tape):
                with net.scope(name):
                    dy = back(dy)
            self.gradient("positions", op("ReduceSum", [dy], width * HALF), width)
            self.gradient("embedding", op("GatherGradient", [dy, ids], width * vocabulary * HALF), width * vocabulary)

        return op("Loss", [log_softmax, ids], FULL), backward

    def attention(self, name: str, x: Value) -> tuple[Value, Backward]:
        op, size, scores = self.op, self.activation, self.scores
        normed, back_norm = self.layer_norm(name, x)
        qkv, back_qkv = self.dense(f"{name}/qkv", normed, self.width, 3 * self.width)
        q, k, v = (op("Transpose", [qkv], size) for _ in range(3))
        scaled = op("ScaleMask", [op("Product", [q, k], scores)], scores)
        shares = op("Softmax", [scaled], scores)
        dropped, back_dropped = self.dropout(shares, scores)
        merged = op("Transpose", [op("Product", [dropped, v], size)], size)
        projected, back_projected = self.dense(f"{name}/projection", merged, self.width, self.width)
        out, back_out = self.dropout(projected, size)

        def back(dy: Value) -> Value:
            d = op("Transpose", [back_projected(back_out(dy))], size)
            dv = op("Product", [dropped, d], size)
            d = back_dropped(op("Product", [d, v], scores))
            d = op("ScaleMask", [op("SoftmaxGradient", [d, shares], scores)], scores)
            dq, dk = op("Product", [d, k], size), op("Product", [d, q], size)
            d = back_norm(back_qkv(op("Concat", [dq, dk, dv], 3 * size)))
            return op("Add", [dy, d], size)

        return op("Add", [x, out], size), back

    def feed_forward(self, name: str, x: Value) -> tuple[Value, Backward]:
        op, size, wide = self.op, self.activation, FEED_FORWARD * self.width
        normed, back_norm = self.layer_norm(name, x)
        hidden, back_hidden = self.dense(f"{name}/up", normed, self.width, wide)
        active = op("Gelu", [hidden], FEED_FORWARD * size)
        down, back_down = self.dense(f"{name}/down", active, wide, self.width)
        out, back_out = self.dropout(down, size)

        def back(dy: Value) -> Value:
            d = op("GeluGradient", [back_down(back_out(dy)), hidden], FEED_FORWARD * size)
            return op("Add", [dy, back_norm(back_hidden(d))], size)

        return op("Add", [x, out], size), back

    def layer_norm(self, name: str, x: Value) -> tuple[Value, Backward]:
        op = self.op
        mean = op("ReduceMean", [x], self.statistics)
        deviation = op("InverseDeviation", [x, mean], self.statistics)

        def back(dy: Value) -> Value:
            for parameter in ("scale", "shift"):
                gradient = op("LayerNormGradient", [dy, x, mean, deviation], self.width * HALF)
                self.gradient(f"{name}/{parameter}", gradient, self.width)
            return op("LayerNormGradient", [dy, x, mean, deviation], self.activation)

        return op("LayerNormalization", [x, mean, deviation], self.activation), back

    def dense(self, name: str, x: Value, inputs: int, outputs: int, *, bias: bool = True) -> tuple[Value, Backward]:
        op = self.op
        y = op("Product", [x], self.tokens * outputs * HALF)
        if bias:
            y = op("BiasAdd", [y], self.tokens * outputs * HALF)

        def back(dy: Value) -> Value:
            if bias:
                self.gradient(f"{name}/bias", op("ReduceSum", [dy], outputs * HALF), outputs)
            self.gradient(f"{name}/weight", op("Product", [x, dy], inputs * outputs * HALF), inputs * outputs)
            return op("Product", [dy], self.tokens * inputs * HALF)

        return y, back

    def dropout(self, x: Value, size: int) -> tuple[Value, Backward]:
        mask = self.op("RandomMask", [x], size // HALF)
        return self.op("Where", [x, mask], size), lambda dy: self.op("Where", [dy, mask], size)
