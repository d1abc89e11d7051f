"""Every reader of files gets files that were changed at random: it reads them, or refuses them in one
message.

    FUZZ_SECONDS=180 python -m pytest -m faults tests/faults/test_readers.py
"""

import contextlib
import copy
import io
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from components.publishing.destination import PushDestination
from detection_core.artifacts import detector as layout
from detection_core.artifacts.blessing import read_verdict
from detection_core.data.record_format import write_record
from detection_core.errors import DetectionError, as_user_error
from pipeline.local.workspace import Workspace
from pipeline.report.writer import write_report
from tests.support.input_data import read

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

_TESTS = Path(__file__).parents[1]
_SAMPLES = _TESTS / "detection_core" / "artifacts" / "samples"
DIGITS = _TESTS.parent / "examples" / "digits"
_SECONDS = float(os.environ.get("FUZZ_SECONDS", "180"))

_NUMBERS = (True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, -0.0, 1e308)
_TEXTS = ("", "x", "../../x", "\0", "\u202e", "9" * 400)
_TREES = (None, [], {}, [[]], {"": None}, [1, "a", None], {"a": {"b": []}})
_ODD = st.sampled_from([*_NUMBERS, *_TEXTS, *_TREES]).map(copy.deepcopy)


@st.composite
def changed_bytes(draw, seed):
    """A file with some bytes replaced, removed, doubled, or cut off."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        end = min(len(data), at + draw(st.integers(0, 12)))
        how = draw(st.sampled_from(["replace", "insert", "remove", "double", "cut"]))
        if how == "replace":
            data[at:end] = draw(st.binary(min_size=end - at, max_size=end - at))
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif how == "remove":
            del data[at:end]
        elif how == "double":
            data[at:at] = data[at:end]
        else:
            del data[at:]
    return bytes(data)


@st.composite
def changed_tree(draw, seed):
    """A JSON text with some values replaced by odd ones, removed, or moved."""
    tree = json.loads(seed)
    for _ in range(draw(st.integers(1, 3))):
        node, path = tree, []
        while isinstance(node, dict | list) and node:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = draw(st.sampled_from(list(keys)))
            path.append((node, key))
            if not draw(st.booleans()):
                break
            node = node[key]
        if not path:
            return json.dumps(draw(_ODD)).encode()
        parent, key = path[-1]
        if draw(st.integers(0, 5)) == 0:
            del parent[key]
        else:
            parent[key] = draw(_ODD)
    return json.dumps(tree).encode()


def changed(seed):
    """A changed file; what is JSON is changed as a tree too."""
    try:
        json.loads(seed)
    except ValueError:
        return changed_bytes(seed)
    return st.one_of(changed_bytes(seed), changed_tree(seed))


class _Over(Exception):
    """The time is over."""


def _destination(root):
    reader = PushDestination(root)
    reader.versions()
    reader.current()
    reader.find("k")
    reader.rollback()


def _runs(root):
    workspace = Workspace(root)
    for record in workspace.runs():
        write_report(record, os.path.join(root, "page.html"))


_VERSION = {"number": 5, "run_key": "k", "fingerprint": "f", "metrics": {"mAP": 0.5}}
_VERSION = json.dumps(_VERSION | {"files": {"saved_model.pb": 1}})
_VERDICT = {"metric": "m", "text": "m 0.5 is above 0.4", "passed": True, "value": 0.5, "bound": 0.4}
_METRICS = {
    "metrics": {"DetectionBoxes_Precision/mAP": 0.5, "DetectionBoxes_Precision/mAP@.50IOU": 0.9},
    "blessed": True,
    "images": 8,
    "split": "test",
    "thresholds": [_VERDICT | {"baseline": None}],
}
_CURVES = {
    "classes": [{"name": "a", "ap50": 0.5, "precision": [1.0, 0.5], "recall": [0.1, 0.9], "objects": 3}],
    "score_threshold": 0.5,
    "confusion": {"labels": ["a", "b"], "matrix": [[1, 0], [0, 1]]},
}


def _run_info(root):
    fields = ("pipeline_name", "settings_text", "workspace", "started", "finished")
    outputs = {"example_gen": "examples", "evaluator": "evaluation", "tflite_exporter": "parity"}
    outputs |= {"pusher": "pushed_model", "quantization_rewriter": "quantization", "trainer": "model_run"}
    done = {n: {"outputs": {o: f"{root}/art/{n}"}, "state": "executed"} for n, o in outputs.items()}
    steps = [{"id": name, "component": name, **step} for name, step in done.items()]
    return json.dumps({"run_id": "r1", **dict.fromkeys(fields, "x"), "status": "succeeded", "steps": steps})


def _readers(root):
    """Give for each name a sound file, its text, and what reads it in a folder."""
    from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest
    from detection_core.config.label_map_file import load_label_map
    from detection_core.config.load import load_pipeline_config
    from detection_core.data.image_header import read_header
    from detection_core.data.records import count_records
    from detection_core.datasets.readers import find_reader
    from pipeline.kubeflow.package import read_package
    from pipeline.settings.settings_file import load_settings

    package = (_TESTS / "pipeline" / "data" / "digits_pipeline.yaml").read_text()
    numbers = {"parameters": 1, "num_classes": 2, "input_size": (8, 8)}
    info = layout.DetectorInfo(kind="float", name="s", **numbers, extra={})
    card = {"splits": {"train": {"images": 3}}, "classes": [{"name": "a", "objects": 3}], "quarantine": {}}
    file = {"file": "m", "metrics": {}, "passed": True, "size_bytes": 1, "latency_ms": {"1": 2}}
    parity = {"files": [file]}
    pictures = [{"kind": "side_by_side", "file": "a.jpg", "caption": "c", "source_id": "1"}]
    coco = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 8, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "bbox": [1, 1, 4, 4], "category_id": 1}],
        "categories": [{"id": 1, "name": "a"}],
    }
    label_map = "item { id: 1 name: 'a' }\nitem { id: 2 name: 'b' display_name: 'B' }\n"
    current = '{"version": 5, "rolled_back": [4]}'
    pushed = '{"pushed": true, "version": 5, "reasons": ["a"]}'
    config, settings_text = (DIGITS / "pipeline.config").read_text(), (DIGITS / "settings.yaml").read_text()
    described = f"{layout.EXTRA}/{layout.MODEL_INFO}"
    return {
        "push destination": ("current.json", current, _destination),
        "version record": ("versions/5.json", _VERSION, _destination),
        "verdict": ("reasons.json", '{"blessed": true, "reasons": ["a"]}', read_verdict),
        "detector": (described, layout.MODEL.format(info), layout.read_info),
        "run": ("runs/r1/run.json", _run_info(root), _runs),
        "metrics": ("art/evaluator/metrics.json", json.dumps(_METRICS), _runs),
        "curves": ("art/evaluator/curves.json", json.dumps(_CURVES), _runs),
        "pictures": ("art/evaluator/pictures/index.jsonl", "\n".join(map(json.dumps, pictures)), _runs),
        "dataset card": ("art/example_gen/dataset_card.json", json.dumps(card), _runs),
        "parity": ("art/tflite_exporter/parity.json", json.dumps(parity), _runs),
        "pushed": ("art/pusher/pushed.json", pushed, _runs),
        "label map": ("x.pbtxt", label_map, lambda r: load_label_map(f"{r}/x.pbtxt")),
        "pipeline.config": ("x.config", config, lambda r: load_pipeline_config(f"{r}/x.config")),
        "settings": ("x.yaml", settings_text, lambda r: load_settings(f"{r}/x.yaml", check_files=False)),
        "voc": ("Annotations/a.xml", _XML, lambda r: find_reader("voc").read(r, None)),
        "shard manifest": (MANIFEST.name, (_SAMPLES / MANIFEST.name).read_text(), read_manifest),
        "image": ("a.png", _picture("PNG"), lambda r: read_header(Path(r, "a.png").read_bytes())),
        "photo": ("a.jpg", _picture("JPEG"), lambda r: read_header(Path(r, "a.jpg").read_bytes())),
        "records": ("a.tfrecord", _records(), lambda r: count_records(f"{r}/a.tfrecord")),
        "package": ("p.yaml", package, lambda r: read_package(f"{r}/p.yaml")),
        "coco": ("a.json", json.dumps(coco), _ingest),
    }


_XML = """<annotation><filename>a.jpg</filename><size><width>8</width><height>8</height></size><object>
<name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox></object></annotation>"""


def _picture(image_format):
    out = io.BytesIO()
    Image.new("RGB", (9, 7), (90, 120, 30)).save(out, image_format)
    return out.getvalue()


def _records():
    out = io.BytesIO()
    for data in (b"one", b"two", b""):
        write_record(out, data)
    return out.getvalue()


def _ingest(root):
    read(root, "coco", {"train": {"annotations": "a.json", "images": "images"}})


_NAMES = list(_readers("/nowhere"))


@pytest.mark.parametrize("name", _NAMES)
def test_a_changed_file_is_read_or_refused_in_one_message(tmp_path, name):
    place, text, read = _readers(str(tmp_path))[name]
    _lay_out(tmp_path)
    ends, tried, path = time.monotonic() + _SECONDS / len(_NAMES), 0, tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = text if isinstance(text, bytes) else text.encode()

    def attempt(data):
        nonlocal tried
        if time.monotonic() > ends:
            raise _Over
        tried += 1
        path.write_bytes(data)
        try:
            read(str(tmp_path))
        except DetectionError as e:
            assert len(str(e)) < 5000
        except OSError as e:
            if as_user_error(e) is None:
                raise

    attempt(seed)
    checks = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    run = settings(max_examples=100_000, phases=[Phase.generate], **checks)
    with contextlib.suppress(_Over):
        run(given(changed(seed))(attempt))()
    print(f"{name}: {tried} files")
    assert tried > 1


def _lay_out(root):
    """Put sound files around the one that is changed."""
    sound = dict.fromkeys(("saved_model.pb", "saved_model/5/saved_model.pb", "images/a.jpg"), "x")
    sound |= {f"versions/{n}.json": _VERSION.replace('"number": 5', f'"number": {n}') for n in (4, 5)}
    sound |= {"BLESSED": "", "current.json": '{"version": 5, "rolled_back": []}'}
    sound |= {"runs/r1/run.json": _run_info(str(root)), "art/evaluator/metrics.json": json.dumps(_METRICS)}
    for name, text in sound.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
