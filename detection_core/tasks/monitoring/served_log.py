"""Reads what a served detector has found, from the logs of servers and the output of `detflow predict`.

Facts about KServe's logger are from its sources, https://github.com/kserve/kserve, folder pkg/logger:
`handler.go` gives a request and its response one id and logs only responses with HTTP status 200, `worker.go`
names the types of its CloudEvents, and `types.go` and `marshaller_json.go` define the records of its store.
Payloads are those of KServe's protocols V1 (TensorFlow Serving's REST interface) and V2.
"""

import base64
import dataclasses
import io
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from detection_core.artifacts.json_values import decode
from detection_core.artifacts.prediction import PREDICTIONS, Prediction
from detection_core.data.pixels import mean_brightness
from detection_core.errors import DataError, DetectionError
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS, Instances
from detection_core.tasks.predict import decode_image
from detection_core.validation.detection_drift import Served

_logger = logging.getLogger(__name__)

_REQUEST = "org.kubeflow.serving.inference.request"
_RESPONSE = "org.kubeflow.serving.inference.response"
_LINES = ".jsonl"
_UNUSABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, DetectionError)


class ServedLog:
    """Collects the images of a log.

    Args:
        num_classes: of the detector; a detection of another class makes an image unusable.
    """

    def __init__(self, num_classes: int) -> None:
        self._num_classes = num_classes
        self._predictions: dict[str, Served] = {}
        self._requests: dict[str, list[tuple[int, int, float]]] = {}
        self._responses: dict[str, list[Instances]] = {}
        self.left_out: Counter[str] = Counter()

    def read(self, path: str) -> None:
        """Read a file, or all files with the ending .json or .jsonl below a folder.

        A file `predictions.jsonl` stands for its whole folder, as `detflow predict` writes it.

        Raises:
            DataError: if there is no such file.
        """
        if not files.exists(path):
            raise DataError("expected a log of detections, found nothing; correct the path", where=path)
        paths = [path]
        if files.is_dir(path):
            lines = PREDICTIONS.path(path)
            below = [files.join(path, name) for name in sorted(files.sizes(path))]
            paths = [lines] if files.exists(lines) else [p for p in below if p.endswith((".json", _LINES))]
            if not paths:
                raise DataError("expected files *.json or *.jsonl, found none", where=path)
        for each in paths:
            for where, text in _entries(each):
                self._add(where, text)

    def images(self) -> list[Served]:
        """Return each image once; those of a response have a size if its request was logged, too."""
        found = list(self._predictions.values())
        for name, responses in self._responses.items():
            requests = self._requests.get(name, [])
            known = requests if len(requests) == len(responses) else [(0, 0, float("nan"))] * len(responses)
            for (height, width, brightness), instances in zip(known, responses, strict=True):
                found.append(Served(dataclasses.replace(instances, height=height, width=width), brightness))
        return found

    def _add(self, where: str, text: bytes) -> None:
        try:
            entry = json.loads(text)
            for each in entry if isinstance(entry, list) else [entry]:
                if "image" in each:
                    self._add_prediction(each)
                elif "ReqType" in each or "specversion" in each:
                    self._add_payload(*_payload(each))
                else:
                    self._leave_out(where, "neither a prediction nor a record of KServe's logger")
        except _UNUSABLE as error:
            self._leave_out(where, "damaged, or without detections", error)

    def _leave_out(self, where: str, reason: str, error: Exception | None = None) -> None:
        if reason not in self.left_out:
            _logger.warning(
                "monitor | %s: %s%s; further ones are counted", where, reason, f" ({error})" * bool(error)
            )
        self.left_out[reason] += 1

    def _add_prediction(self, entry: Mapping[str, Any]) -> None:
        if entry.get("error"):
            return
        found = decode(Prediction, entry)
        instances = self._instances(
            found.image,
            [detection.box for detection in found.detections],
            [detection.score for detection in found.detections],
            [detection.label for detection in found.detections],
            (found.height, found.width),
        )
        brightness = float("nan") if found.brightness is None else found.brightness
        self._predictions[found.image] = Served(instances, brightness)

    def _add_payload(self, kind: str, name: str, payload: Any) -> None:
        if kind == _REQUEST:
            rows = _rows(payload, "instances", "inputs")
            self._requests[name] = [_measure(next(iter(row.values()))) for row in rows]
        elif kind == _RESPONSE:
            rows = _rows(payload, "predictions", "outputs")
            self._responses[name] = [self._detections(name, row) for row in rows]
        else:
            raise ValueError(f"unknown type {kind!r:.80}")

    def _detections(self, name: str, row: Mapping[str, Any]) -> Instances:
        scores = np.ravel(row["detection_scores"])
        count = int(np.ravel(row.get("num_detections", len(scores)))[0])
        boxes: np.ndarray = np.reshape(row["detection_boxes"], (-1, 4))
        return self._instances(
            name, boxes[:count], scores[:count], np.ravel(row["detection_classes"])[:count]
        )

    def _instances(
        self, name: str, boxes: Any, scores: Any, labels: Any, size: tuple[int, int] = (0, 0)
    ) -> Instances:
        """Return detections of class ids from 1; ValueError for numbers that no detector returns."""
        numbers = np.asarray(labels, np.float64)
        classes = np.nan_to_num(numbers, nan=0.0).astype(np.int64) - FIRST_CLASS
        edges, values = np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(scores, np.float32)
        is_finite = np.isfinite(edges).all() and np.isfinite(values).all()
        if not is_finite or not len(edges) == len(values) == len(classes):
            raise ValueError("expected as many finite boxes, scores and classes")
        if classes.size and not 0 <= classes.min() <= classes.max() < self._num_classes:
            raise ValueError(f"expected class ids 1 to {self._num_classes}")
        height, width = size
        return Instances(
            source_id=name, height=height, width=width, boxes=edges, classes=classes, scores=values
        )


def _payload(entry: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Return type, id and payload of a record of the logger's store, or of a CloudEvent in JSON."""
    if "ReqType" in entry:
        return entry["ReqType"], entry["Id"], json.loads(base64.b64decode(entry["Bytes"]))
    payload = entry["data"] if "data" in entry else json.loads(base64.b64decode(entry["data_base64"]))
    return entry["type"], entry["id"], payload


def _entries(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of a .jsonl file one by one, or the whole of another file, with their places."""
    with files.open_regular(path) as raw, io.BufferedReader(raw) as file:  # type: ignore[type-var] # it is raw
        if not path.endswith(_LINES):
            yield path, file.read()
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}:{number}", line


def _rows(payload: Mapping[str, Any], rows: str, columns: str) -> list[dict[str, Any]]:
    """Return the tensors of each image in a payload.

    `rows` is the key of V1's row format. `columns` is that of its column format, and of V2's list of tensors.
    """
    if rows in payload:
        return [row if isinstance(row, dict) and "b64" not in row else {"": row} for row in payload[rows]]
    found = payload[columns]
    if isinstance(found, list) and all(isinstance(tensor, dict) and "datatype" in tensor for tensor in found):
        found = {tensor["name"]: np.reshape(tensor["data"], tensor["shape"]) for tensor in found}
    elif not isinstance(found, dict):
        found = {"": found}
    return [
        {name: values[row] for name, values in found.items()}
        for row in range(len(next(iter(found.values()))))
    ]


def _measure(image: Any) -> tuple[int, int, float]:
    """Return height, width and brightness of an image in a request: pixels [H, W, 3], or a file as base64."""
    file = image["b64"] if isinstance(image, dict) else image
    pixels = decode_image(base64.b64decode(file), "request") if isinstance(file, str) else np.asarray(file)
    height, width, _ = pixels.shape
    return height, width, mean_brightness(pixels)
