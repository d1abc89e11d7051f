"""`detflow monitor`: exit codes, and the command after drift, which runs once for each published model."""

import re
import shlex
from pathlib import Path

import numpy as np
from PIL import Image

from detection_core.artifacts.detection_statistics import DETECTION_STATISTICS
from detection_core.artifacts.detector import extra_file
from detection_core.artifacts.prediction import PREDICTIONS, DetectedObject, Prediction
from detection_core.structures import Instances
from detection_core.validation.detection_drift import Served, describe_detections
from pipeline.cli.inference import EXIT_DRIFTED
from tests.support.blobs import BlobDetector, save_folder, scenes

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


def publish(path, brightness):
    """Write a model with the statistics of an evaluation."""
    model = save_folder(BlobDetector(), Path(path))
    thing = Instances(source_id="", boxes=np.zeros((1, 4)), classes=np.zeros(1, int), scores=np.full(1, 0.9))
    images = [Served(thing, brightness + number % 30) for number in range(60)]
    found = describe_detections(images, ["red", "green"], min_score=0.3)
    file = Path(extra_file(model, DETECTION_STATISTICS.name))
    file.write_text(DETECTION_STATISTICS.format(found))


def log(path, brightness):
    thing = DetectedObject(label=1, name="red", score=0.9, box=(0, 0, 0, 0))
    made = [Prediction(image=f"{n}", detections=(thing,), brightness=brightness + n % 30) for n in range(60)]
    path.mkdir(parents=True)
    PREDICTIONS.write(str(path), made)


def test_the_command_runs_once_for_each_model_and_again_after_it_failed(tmp_path, cli):
    publish(tmp_path / "model", 100)
    log(tmp_path / "usual", 100)
    log(tmp_path / "dark", 20)
    assert "60 images; 0 of 6 properties drifted" in cli(
        "monitor", tmp_path / "model", tmp_path / "usual", "--output", tmp_path / "out", "--on-drift", "false"
    )
    words = ("monitor", tmp_path / "model", tmp_path / "dark", "--output", tmp_path / "out", "--on-drift")
    assert "expected exit code 0, found 1 of false" in cli.refused(*words, "false")
    assert "cannot be run" in cli.refused(*words, str(tmp_path / "missing"))
    assert "cannot be run" in cli.refused(*words, "'")
    script = f"python3 -c \"open('{tmp_path}/ran', 'a').write('x')\""
    told = cli(*words, script, code=EXIT_DRIFTED)
    assert "brightness (above all " in told and f"ran {script}" in told
    assert cli.json(*words, script, code=EXIT_DRIFTED)["triggered"]
    assert "it is not run again" in cli(*words, script, code=EXIT_DRIFTED)
    assert (tmp_path / "ran").read_text() == "x"
    # A model with other statistics is another one.
    publish(tmp_path / "next", 150)
    words = (words[0], tmp_path / "next", *words[2:])
    assert cli.json(*words, script, code=EXIT_DRIFTED)["triggered"] and (tmp_path / "ran").read_text() == "xx"


def test_the_commands_of_the_page_run(tmp_path, cli, monkeypatch):
    page = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^detflow (.*)$", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    publish("build/digits/workspace/pushed", 100)
    Path("photos").mkdir()
    for number, (image, _) in enumerate(scenes(2)):
        Image.fromarray(image).save(f"photos/{number}.png")
    printed = [cli(*shlex.split(command)) for command in commands]
    assert len(printed) == 3
    assert all("2 images; not judged: 2 images; log and split need 30" in text for text in printed[1:])
    # The line of JSON that the page has.
    Path("line.jsonl").write_text(re.search(r'`(\{"image".*?\})`', page)[1])
    found = cli.json("monitor", "build/digits/workspace/pushed", "line.jsonl", "--output", "build/line")
    assert (found["images"], found["left_out"]) == (1, {})
