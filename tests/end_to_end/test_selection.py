"""Select images, correct their tasks, and the export is the next span that a schedule's run trains on."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from component_specs import ExampleGenJob
from components.example_gen.run import run
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import format_label_map
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject
from detection_core.datasets.annotation_writers import WRITERS
from detection_core.tasks.examples import count_split
from detection_core.validation.labelled_images import read_split
from pipeline.run_checks import run_checks
from pipeline.settings.settings_file import load_settings
from tests.support.blobs import LABELS, BlobDetector, save_folder, scenes
from tests.support.command_line import CommandLine
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

SETTINGS = """
name: growing
workspace: workspace
data:
  path: data
  format: FORMAT
  splits:
    train: {annotations: "spans/{SPAN}/FILE", images: "spans/{SPAN}/images"}
    eval: {annotations: reference/FILE, images: reference/images}
  window: 100
  span_ready_file: _SUCCESS
  label_map: label_map.pbtxt
model: {config: pipeline.config}
schedule: {cron: "@daily"}
"""
FILES = {"cvat": "annotations.xml", "label_studio": "export.json"}


def cvat_export(tasks: Path, export: Path, *, move: float) -> None:
    """Write what CVAT 1.1 exports after a person has moved the first box; it lists labels under the job."""
    root = ElementTree.parse(tasks).getroot()
    meta, task = root.find("meta"), root.find("meta/task")
    job = ElementTree.SubElement(meta, "job")
    ElementTree.SubElement(job, "mode").text = "annotation"
    job.append(task.find("labels"))
    meta.remove(task)
    box = next(root.iter("box"))
    box.set("source", "manual")
    for side in ("xtl", "xbr"):
        box.set(side, f"{float(box.get(side)) + move:.2f}")
    ElementTree.ElementTree(root).write(export, encoding="utf-8", xml_declaration=True)


def label_studio_export(tasks: Path, export: Path, *, move: float) -> None:
    """Write Label Studio's JSON after people have submitted every task, and moved the first region."""
    exported, moved = [], False
    for number, task in enumerate(json.loads(tasks.read_text()), start=1):
        [prediction] = task["predictions"]
        result = [{key: r[key] for key in r if key != "score"} for r in prediction["result"]]
        for region in [] if moved else result[:1]:
            region["value"]["x"] += 100 * move / region["original_width"]
            region["origin"], moved = "prediction-changed", True
        annotation = {"id": number, "was_cancelled": False, "ground_truth": False, "result": result}
        exported.append({"id": number, "data": task["data"], "annotations": [annotation], "predictions": [7]})
    export.write_text(json.dumps(exported))


EXPORTS = {"cvat": cvat_export, "label_studio": label_studio_export}


def write_labelled(folder: Path, data_format: str, count: int, seed: int) -> None:
    """Write scenes that people have labelled, as their tool exports them."""
    (folder / "images").mkdir(parents=True)
    images = []
    for number, (pixels, truth) in enumerate(scenes(count, seed)):
        name = f"{seed}-{number}.png"
        Image.fromarray(pixels).save(folder / "images" / name)
        height, width = pixels.shape[:2]
        objects = [
            AnnotatedObject(LABELS.names[c], (x0 * width, y0 * height, x1 * width, y1 * height))
            for c, (y0, x0, y1, x1) in zip(truth.classes.tolist(), truth.boxes.tolist(), strict=True)
        ]
        images.append(AnnotatedImage(name, name, name, width, height, objects))
    WRITERS[data_format](str(folder), images, LABELS, "people")
    [tasks] = [path for path in folder.iterdir() if path.is_file()]
    EXPORTS[data_format](tasks, folder / FILES[data_format], move=0)
    (folder / "_SUCCESS").touch()


def ingest(settings, checks, folder: Path) -> list:
    """Run ExampleGen on the spans that the checks have found; returns the training images."""
    data = settings.data
    job = ExampleGenJob(
        examples=str(folder), data_path=data.path, data_format=data.format, splits=data.splits,
        label_map=data.label_map, spans=checks["data_spans"],
    )  # fmt: skip
    run(job)
    label_map = load_label_map(data.label_map)
    return list(read_split(count_split(str(folder), "train"), label_map))


@pytest.mark.parametrize("data_format", FILES)
def test_the_corrected_export_of_a_selection_is_the_next_span(tmp_path, capsys, data_format):
    spans = tmp_path / "data" / "spans"
    write_labelled(spans / "1", data_format, 8, seed=5)
    write_labelled(tmp_path / "data" / "reference", data_format, 4, seed=6)
    (tmp_path / "label_map.pbtxt").write_text(format_label_map(LABELS))
    (tmp_path / "pipeline.config").write_text(config_text(1, PLAIN))
    text = SETTINGS.replace("FORMAT", data_format).replace("FILE", FILES[data_format])
    (tmp_path / "settings.yaml").write_text(text)
    settings = load_settings(str(tmp_path / "settings.yaml"))
    before = run_checks(settings)
    assert before["data_spans"].train == ("1",)
    assert len(ingest(settings, before, tmp_path / "examples-1")) == 8

    photos, out, cli = tmp_path / "photos", tmp_path / "next", CommandLine(capsys)
    photos.mkdir()
    for number, (pixels, _) in enumerate(scenes(10)):
        Image.fromarray(pixels).save(photos / f"{number}.png")
    shutil.copy(spans / "1" / "images" / "5-0.png", photos / "labelled.png")
    words = ["select", "--model", save_folder(BlobDetector(score=0.6), tmp_path / "model"), photos, "-n", 3]
    found = cli.json(*words, "--labelled", tmp_path / "examples-1", "-o", out)
    chosen = (out / "selected.txt").read_text().splitlines()
    assert [image["image"] for image in found["images"] if image["rank"]] == chosen and len(chosen) == 3

    arriving = spans / "2"
    (arriving / "images").mkdir(parents=True)
    for path in chosen:
        shutil.copy(path, arriving / "images")
    EXPORTS[data_format](next(out.glob(f"{data_format}.*")), arriving / FILES[data_format], move=-3)
    # The schedule's run takes no half-copied span.
    assert run_checks(settings)["run_key"] == before["run_key"]
    (arriving / "_SUCCESS").touch()
    after = run_checks(settings)
    assert after["data_spans"].train == ("1", "2")
    assert after["data_fingerprint"] != before["data_fingerprint"] and after["run_key"] != before["run_key"]

    images = ingest(settings, after, tmp_path / "examples-2")
    new = {image.source_id.partition("/")[2]: image for image in images if image.source_id.startswith("2/")}
    assert len(images) == 11 and len(new) == 3
    detected = {number: truth for number, (_, truth) in enumerate(scenes(10))}
    shifts = []
    for path in chosen:
        stem = Path(path).stem
        [image] = [image for name, image in new.items() if Path(name).stem == stem]
        truth = detected[int(stem)]
        assert image.classes.tolist() == truth.classes.tolist()
        shifts.append(round(float((image.boxes - truth.boxes)[0, 1]) * image.width))
    assert shifts == [-3, 0, 0], "the corrected box, not the detector's"

    # What is labelled is not asked for again.
    again = cli.json(*words, "--labelled", tmp_path / "examples-2", "-o", tmp_path / "after")
    assert not {image["image"] for image in again["images"] if image["rank"]} & {
        *chosen,
        str(photos / "labelled.png"),
    }
