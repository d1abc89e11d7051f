"""Describe a TensorFlow Lite file, a detector folder or a SavedModel without running it."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts import detector as layout
from detection_core.artifacts.graph_operations import read_saved_model
from detection_core.artifacts.json_values import encode
from detection_core.artifacts.published import (
    IN_SERVICE,
    TFLITE,
    VERSIONS,
    WITHDRAWN,
    read_version,
    version_file,
)
from detection_core.artifacts.tflite_file import TFLiteGraph, by_number, read_graph, read_tflite
from detection_core.artifacts.tflite_metadata import TFLiteDescription, find_description, read_tensor_names
from detection_core.artifacts.tflite_provenance import Provenance, provenance_of_training, read_provenance
from detection_core.errors import ContractError
from detection_core.storage import files

SERVING_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """An input or an output, in the order of the file.

    Attributes:
        index: index of the tensor; for a SavedModel, position among the names.
        name: name in the graph.
        signature: name in the signature; "" if it has none.
        described_as: name in the metadata, which task libraries use; "" if it has none.
        dtype: such as `uint8`.
        shape: -1 for a free dimension.
        scale: quantization scale: value = (code - zero_point) * scale; None if not quantized.
        zero_point: quantization zero point, see `scale`.
    """

    index: int
    name: str
    signature: str = ""
    described_as: str = ""
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inspection:
    """Contents of a file or folder.

    Attributes:
        path: as given.
        kind: `tflite`, or `saved_model`.
        size_bytes: of the file, or of all files of the SavedModel.
        sha256: of the file, or of saved_model.pb.
        inputs: in order.
        outputs: in order.
        operators: name to number of uses, the most frequent first.
        description: normalisation and labels of the metadata; None if there are none.
        provenance: training and data it comes from; None if not recorded.
        detector: model.json of a detector folder; None otherwise.
        published: record of the version, if it lies at a push destination.
    """

    path: str
    kind: str
    size_bytes: int
    sha256: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    operators: Mapping[str, int]
    description: TFLiteDescription | None = None
    provenance: Provenance | None = None
    detector: layout.DetectorInfo | None = None
    published: Mapping[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        """Return all fields, JSON-ready."""
        return dict(encode(self))


def inspect(path: str) -> Inspection:
    """Describe a file or folder; the model is not run.

    Args:
        path: a .tflite file, a detector folder, its SavedModel, or a SavedModel of another program.

    Raises:
        ModelError: for a file of another kind, or a damaged one.
        ContractError: for a folder without a SavedModel, or with a part of the wrong kind.
    """
    if not files.exists(path):
        raise ContractError(
            "expected a .tflite file or a folder with a SavedModel, found nothing", where=path
        )
    return _inspect_saved_model(path) if files.is_dir(path) else _inspect_tflite(path)


def _inspect_tflite(path: str) -> Inspection:
    content = read_tflite(path)
    graph = read_graph(content, where=path)
    named_inputs, named_outputs = read_tensor_names(content, where=path)
    return Inspection(
        path=path,
        kind="tflite",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        inputs=_tensors(graph, graph.inputs, named_inputs),
        outputs=_tensors(graph, graph.outputs, named_outputs),
        operators=graph.operator_counts(),
        description=find_description(content, where=path),
        provenance=read_provenance(content, where=path),
        published=_published(os.path.dirname(_absolute(path)), (TFLITE,)),
    )


def _tensors(
    graph: TFLiteGraph, indices: tuple[int, ...], described: tuple[str, ...]
) -> tuple[TensorFacts, ...]:
    tensors = [graph.tensors[index] for index in indices]
    return tuple(
        TensorFacts(
            index=index,
            name=tensor.name,
            signature=graph.signature_names.get(index, ""),
            described_as=described[place] if place < len(described) else "",
            dtype=tensor.dtype,
            shape=tensor.shape,
            scale=tensor.quantization.scale[0] if tensor.quantization else None,
            zero_point=tensor.quantization.zero_point[0] if tensor.quantization else None,
        )
        for place, (index, tensor) in enumerate(zip(indices, tensors, strict=True))
    )


def _inspect_saved_model(path: str) -> Inspection:
    folder = layout.serving_dir(path)
    saved, content = read_saved_model(files.join(folder, layout.SAVED_MODEL), folder)
    meta = saved.meta_graphs[0]
    served = meta.signature_def[SERVING_SIGNATURE]  # empty if missing
    nodes = [meta.graph_def.node, *(function.node_def for function in meta.graph_def.library.function)]
    info = layout.read_info(path) if files.exists(layout.extra_file(path, layout.MODEL_INFO)) else None
    provenance = None
    if info:
        origin = provenance_of_training(info.extra)
        provenance = dataclasses.replace(origin, model=info.name, format=info.kind)
    return Inspection(
        path=path,
        kind="saved_model",
        size_bytes=files.total_size(folder),
        sha256=hashlib.sha256(content).hexdigest(),
        inputs=_signature_tensors(served.inputs),
        outputs=_signature_tensors(served.outputs),
        operators=by_number(node.op for part in nodes for node in part),
        provenance=provenance,
        detector=info,
        published=_published(folder, (IN_SERVICE, WITHDRAWN)),
    )


def _signature_tensors(tensors: Mapping[str, Any]) -> tuple[TensorFacts, ...]:
    from tensorflow.python.framework import dtypes

    return tuple(
        TensorFacts(
            index=place,
            name=tensor.name,
            signature=name,
            dtype=dtypes.as_dtype(tensor.dtype).name,
            shape=tuple(side.size for side in tensor.tensor_shape.dim),
        )
        for place, (name, tensor) in enumerate(sorted(tensors.items()))
    )


def _published(folder: str, below: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the record of the version that contains a folder, if it lies at a push destination."""
    parts = _absolute(folder).rsplit("/", 2)
    if len(parts) < 3 or parts[1] not in below or not re.fullmatch("[0-9]{1,18}", parts[2]):
        return None
    path = files.join(parts[0], VERSIONS, version_file(int(parts[2])))
    if not files.exists(path):
        return None
    return dict(encode(read_version(path, int(parts[2]))))


def _absolute(path: str) -> str:
    return path.rstrip("/") if files.is_remote(path) else os.path.abspath(path)
