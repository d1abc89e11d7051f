"""The operations of a TensorFlow Lite file, what they compute, and the outputs asked of it."""

import dataclasses
from typing import Any

import numpy as np

from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.operator_times import make_interpreter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of a TensorFlow Lite file."""

    name: str  # its name, `CONV_2D` and so on; of a custom operation its own name
    inputs: tuple[str, ...]  # dtype names of its inputs
    outputs: tuple[str, ...]  # dtype names of its outputs


def list_operations(content: bytes) -> list[Operation]:
    """Read which operations a TensorFlow Lite file has, and in which types they run."""
    from tensorflow.lite.python import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    codes = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    types = {v: k.lower() for k, v in vars(schema.TensorType).items() if not k.startswith("_")}
    return [
        Operation(
            name=_operation_name(model.operatorCodes[operator.opcodeIndex], codes),
            inputs=tuple(types[graph.tensors[i].type] for i in operator.inputs if i >= 0),
            outputs=tuple(types[graph.tensors[i].type] for i in operator.outputs if i >= 0),
        )
        for graph in model.subgraphs
        for operator in graph.operators
    ]


def infer(content: bytes, image: np.ndarray, delegate: str = "none") -> list[np.ndarray]:
    """Run a file of one input; return its outputs."""
    interpreter = make_interpreter(content, threads=1, delegate=delegate)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


def _operation_name(code: Any, builtins: dict[int, str]) -> str:
    if code.customCode:
        return str(code.customCode.decode())
    return builtins[max(code.builtinCode, code.deprecatedBuiltinCode)]


def outputs(max_detections: int, **changed) -> TFLiteOutputOptions:
    options = {"classes_per_detection": 1, "use_regular_nms": False, **changed}
    return TFLiteOutputOptions(max_detections=max_detections, **options)
