"""Files as they were written before most of them told a version; a reader takes them for ever."""

import json
from pathlib import Path

from detection_core.artifacts.blessing import REASONS
from detection_core.artifacts.dataset_card import CARD
from detection_core.artifacts.detector import MODEL
from detection_core.artifacts.evaluation import CURVES, METRICS
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.model_run import HISTORY, QUANTIZATION_REPORT, TRAIN_REPORT
from detection_core.artifacts.parity import PARITY
from detection_core.artifacts.pictures import PICTURES
from detection_core.artifacts.prediction import PREDICTION
from detection_core.artifacts.published import CURRENT, VERSION
from detection_core.artifacts.pushed import PUSHED
from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.artifacts.run_info import RUN
from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest
from detection_core.errors import ContractError
from tests.support.cases import cases, refused

FOLDER = Path(__file__).parent / "samples"
SAMPLES = {
    "1795305663.json": VERSION,
    "current.json": CURRENT,
    "curves.json": CURVES,
    "dataset_card.json": CARD,
    "examples.tfrecord_manifest.json": MANIFEST,
    "history.jsonl": HISTORY,
    "metrics.json": METRICS,
    "model.json": MODEL,
    "parity.json": PARITY,
    "pictures_index.json": PICTURES,
    "prediction.json": PREDICTION,
    "pushed.json": PUSHED,
    "quantization.json": QUANTIZATION,
    "quantized_train_report.json": QUANTIZATION_REPORT,
    "reasons.json": REASONS,
    "run.json": RUN,
    "train_report.json": TRAIN_REPORT,
}
OBJECTS = {name: file for name, file in SAMPLES.items() if isinstance(file, JsonFile)}


def read_sample(name):
    return (FOLDER / name).read_text(encoding="utf-8")


@cases(*OBJECTS)
def test_what_an_older_version_wrote_is_read_with_all_that_it_says(*, name):
    file, old = OBJECTS[name], json.loads(read_sample(name))
    written = json.loads(file.format(file.parse(read_sample(name), name)))
    assert _without_what_is_new(written, old) == old


def _without_what_is_new(new, old):
    if isinstance(old, dict):
        return {key: _without_what_is_new(new[key], value) for key, value in old.items()}
    if isinstance(old, list):
        assert len(new) == len(old)
        return [_without_what_is_new(*pair) for pair in zip(new, old, strict=True)]
    return new


@cases(*OBJECTS)
def test_a_field_of_a_later_version_is_ignored_and_a_newer_layout_refused(*, name):
    file, old = OBJECTS[name], json.loads(read_sample(name))
    assert file.parse(json.dumps({**old, "colour": "blue"}), name) == file.parse(json.dumps(old), name)
    newer = json.dumps({**old, file.version_key: file.version + 1})
    assert refused(ContractError, "a newer detflow has written this", file.parse, newer, name).where == name


def test_lines_lists_and_manifests_are_read_with_all_that_they_say(tmp_path):
    text = read_sample("pictures_index.json")
    (tmp_path / PICTURES.name).write_text(text)
    assert PICTURES.format(PICTURES.read_valid(str(tmp_path))) == text
    (tmp_path / MANIFEST.name).write_text(read_sample(MANIFEST.name))
    assert [shard.examples for shard in read_manifest(str(tmp_path))] == [3, 2]
    lines = [HISTORY.parse_line(line, "history.jsonl") for line in read_sample("history.jsonl").splitlines()]
    assert [line.step for line in lines] == [20, 40, 60] and lines[0].losses["Loss/total_loss"] > 0
