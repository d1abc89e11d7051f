"""Logs of predictions, and of KServe's logger in both protocols, with damaged lines."""

import base64
import io
import json

import numpy as np
from PIL import Image

from detection_core.artifacts.prediction import PREDICTIONS, DetectedObject, Prediction
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import DataError
from detection_core.tasks.monitoring.served_log import ServedLog
from tests.support.cases import refused

NAMES = LabelMap(items=(LabelMapItem(id=1, name="red"), LabelMapItem(id=2, name="green")))
PIXELS = np.full((6, 8, 3), 100, np.uint8)
BOX, SCORE = [0.25, 0.5, 0.75, 1.0], 0.875
ROW = {
    "detection_boxes": [BOX, [0, 0, 0, 0]], "detection_scores": [SCORE, 0.0],
    "detection_classes": [2.0, 1.0], "num_detections": 1.0,
}  # fmt: skip


def tensor(name, data, datatype="FP32"):
    return {
        "name": name,
        "shape": list(np.shape(data)),
        "datatype": datatype,
        "data": np.ravel(data).tolist(),
    }


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def event(kind, name, payload):
    """A CloudEvent as a sink of KServe's logger stores it; extensions as in worker.go."""
    return {
        "specversion": "1.0", "id": name, "type": f"org.kubeflow.serving.inference.{kind}",
        "inferenceservicename": "detector", "namespace": "default", "component": "predictor", "endpoint": "",
        "source": "http://localhost:9081/", "datacontenttype": "application/json", "data": payload,
    }  # fmt: skip


def stored(kind, name, payload):
    """A record of the logger's store: Go writes the fields of LogRequest (types.go), bytes as base64."""
    return {
        "Url": None, "Bytes": base64.b64encode(json.dumps(payload).encode()).decode(),
        "ContentType": "application/json", "ReqType": f"org.kubeflow.serving.inference.{kind}", "Id": name,
        "SourceUri": None, "InferenceService": "detector", "Namespace": "default", "Component": "predictor",
        "Endpoint": "", "Metadata": {}, "Annotations": None, "CertName": "", "TlsSkipVerify": False,
    }  # fmt: skip


PAYLOADS = {
    "V1 rows": ({"instances": [PIXELS.tolist()]}, {"predictions": [ROW]}),
    "V1 named rows": ({"instances": [{"input_tensor": PIXELS.tolist()}]}, {"predictions": [ROW]}),
    "V1 columns": (
        {"inputs": [PIXELS.tolist()]},
        {"outputs": {name: [values] for name, values in ROW.items()}},
    ),
    "V1 files": ({"instances": [{"b64": png(PIXELS)}]}, {"predictions": [ROW]}),
    "V2": (
        {"inputs": [tensor("input_tensor", PIXELS[None], "UINT8")]},
        {"outputs": [tensor(name, [values]) for name, values in ROW.items()]},
    ),
}


def images_of(tmp_path, *entries, name="log.jsonl"):
    path = tmp_path / name
    path.write_text(
        "".join(f"{entry if isinstance(entry, str) else json.dumps(entry)}\n" for entry in entries)
    )
    log = ServedLog(num_classes=2)
    log.read(str(path))
    return log.images(), dict(log.left_out)


def test_requests_and_responses_of_both_protocols_give_the_same_image(tmp_path):
    for name, (request, response) in PAYLOADS.items():
        for record in (event, stored):
            # The logger's queue keeps no order.
            found, left_out = images_of(
                tmp_path, record("response", "1", response), record("request", "1", request)
            )
            [(image, brightness)] = found
            assert not left_out and (image.height, image.width, brightness) == (6, 8, 100.0), name
            assert image.boxes.tolist() == [BOX] and image.scores.tolist() == [SCORE], name
            assert image.classes.tolist() == [1], name
    [(image, brightness)], _ = images_of(tmp_path, event("response", "1", PAYLOADS["V2"][1]))
    assert (image.height, image.width) == (0, 0) and np.isnan(brightness)


def test_batches_arrays_of_records_and_binary_data_are_read(tmp_path):
    two = {"instances": [PIXELS.tolist(), (PIXELS[:4] // 2).tolist()]}
    records = [stored("request", "a", two), stored("response", "a", {"predictions": [ROW, ROW]})]
    (tmp_path / "store").mkdir()
    found, _ = images_of(tmp_path / "store", json.dumps(records), name="batch.json")
    assert [(image.height, brightness) for image, brightness in found] == [(6, 100.0), (4, 50.0)]
    binary = event("response", "b", None)
    del binary["data"]
    binary["data_base64"] = base64.b64encode(json.dumps({"predictions": [ROW]}).encode()).decode()
    (tmp_path / "store" / "more.jsonl").write_text(json.dumps(binary))
    (tmp_path / "store" / "notes.txt").write_text("no log")
    log = ServedLog(num_classes=2)
    log.read(str(tmp_path / "store"))
    assert len(log.images()) == 3


def test_lines_that_cannot_be_used_are_counted_and_named_once(tmp_path, caplog):
    wrong = [ROW | {name: value} for name, value in (
        ("detection_classes", [3.0, 1.0]), ("detection_scores", [float("inf"), 0]),
        ("detection_boxes", [[0, 0, 1]]),
        ("num_detections", "many"), ("detection_classes", None),
    )]  # fmt: skip
    entries = [event("response", str(n), {"predictions": [row]}) for n, row in enumerate(wrong)]
    entries += [
        "{",
        "7",
        "[" * 100_000,
        json.dumps("text"),
        event("other", "x", {}),
        event("response", "y", []),
    ]
    entries += [{"ReqType": "org.kubeflow.serving.inference.response", "Id": "z", "Bytes": "%%"}]
    good = event("response", "good", {"predictions": [ROW]})
    found, left_out = images_of(tmp_path, *entries, good, {"some": "thing"})
    assert [image.source_id for image, _ in found] == ["good"]
    assert left_out == {
        "damaged, or without detections": len(entries) - 1,
        "neither a prediction nor a record of KServe's logger": 2,  # text, and an object of another kind
    }
    named = [record.getMessage() for record in caplog.records]
    assert len(named) == 2 and "log.jsonl:1: damaged" in named[0] and "log.jsonl:9: " in named[1]
    (tmp_path / "empty").mkdir()
    for path, message in (("none", "found nothing; correct the path"), ("empty", "found none")):
        refused(DataError, message, ServedLog(2).read, str(tmp_path / path))


def test_predictions_are_read_once_and_failed_ones_are_not_images(tmp_path):
    thing = DetectedObject(label=1, name="red", score=0.5, box=(0, 0, 1, 1))
    made = [
        Prediction(image=f"{n}.jpg", height=4, width=5, detections=(thing,) * n, brightness=n)
        for n in range(3)
    ]
    failed = Prediction(image="broken.jpg", error="no image").as_json()
    found, left_out = images_of(tmp_path, *(p.as_json() for p in made), made[2].as_json(), failed)
    assert [(len(image.classes), brightness) for image, brightness in found] == [(0, 0), (1, 1), (2, 2)]
    assert not left_out and found[0].found.height == 4
    # One file for a whole folder, beside other files of JSON.
    PREDICTIONS.write(str(tmp_path), made[:1])
    (tmp_path / "coco_results.json").write_text("[{}]")
    log = ServedLog(num_classes=2)
    log.read(str(tmp_path))
    assert len(log.images()) == 1 and not log.left_out
