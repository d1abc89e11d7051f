"""Served detections are compared with the statistics that are published beside a model."""

import pytest

from components.publishing.destination import PushDestination
from detection_core.artifacts.detection_statistics import DETECTION_STATISTICS, MONITORING
from detection_core.artifacts.detector import serving_dir
from detection_core.artifacts.published import PublishedVersion
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import ConfigError, ContractError
from detection_core.tasks.monitor import monitor
from detection_core.tasks.predict import PredictOptions, predict
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.cases import refused
from tests.support.evaluations import evaluate

NAMES = LabelMap(items=(LabelMapItem(id=1, name="red"), LabelMapItem(id=2, name="green")))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A push destination of a detector, with the statistics of its evaluation."""
    folder = tmp_path_factory.mktemp("published")
    model = save_folder(BlobDetector(), folder / "model")
    evaluate(
        model_path=model,
        truth=lambda: iter(scenes(60)),
        label_map=NAMES,
        evaluation_dir=str(folder / "evaluation"),
        options=EvaluateOptions(split="eval", pictures=0),
    )
    statistics = DETECTION_STATISTICS.path(str(folder / "evaluation"))
    destination = PushDestination(str(folder / "pushed"))
    extras = {DETECTION_STATISTICS.name: statistics}
    destination.publish(serving_dir(model), "", PublishedVersion(number=0, fingerprint="a"), 0, extras=extras)
    return str(folder / "pushed")


@pytest.fixture(scope="module")
def predicted(published, tmp_path_factory):
    """Predictions of other scenes, and of the same with the green channel as the red one, too."""
    folder = tmp_path_factory.mktemp("predicted")
    for name, changed in (("usual", lambda image: image), ("changed", lambda image: image[..., [1, 1, 2]])):
        images = [changed(image) for image, _ in scenes(60, seed=5)]
        predict(published, images, str(folder / name), options=PredictOptions(formats=["jsonl"]))
    return folder


def test_statistics_of_the_evaluation_are_published_and_compared(published, predicted, tmp_path):
    usual = monitor(published, str(predicted / "usual"), str(tmp_path / "usual"))
    assert usual.images == 60 and not usual.drifted and not usual.left_out and not usual.not_judged
    names = {found.name for found in usual.compared}
    assert names == {
        "class", "score", "size", "aspect", "place",
        "objects of an image", "image size", "image aspect", "brightness",
    }  # fmt: skip
    assert MONITORING.read(str(tmp_path / "usual")) == usual
    assert "no drift" in (tmp_path / "usual" / "index.html").read_text()
    changed = monitor(published, str(predicted / "changed"), str(tmp_path / "changed"))
    assert {found.name for found in changed.drifted} >= {"brightness", "objects of an image"}
    page = (tmp_path / "changed" / "index.html").read_text()
    assert (
        "of 9 properties drifted" in page
        and page.count("<svg viewBox") >= 9
        and "brightness: drifted" in page
    )


def test_too_few_images_are_not_judged_and_wrong_options_are_refused(published, predicted, tmp_path):
    lines = (predicted / "usual" / "predictions.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "few.jsonl").write_text("".join(lines[:29]))
    found = monitor(published, str(tmp_path / "few.jsonl"), str(tmp_path / "few"))
    assert found.not_judged == "29 images; log and split need 30" and not found.compared
    assert "not judged: 29 images" in (tmp_path / "few" / "index.html").read_text()
    usual = str(predicted / "usual")
    assert not monitor(published, usual, str(tmp_path / "high"), min_score=0.9).drifted
    for options, message in (
        ({"min_score": 0.2}, "expected 0.8, 0.9, from which the evaluation counted .* found 0.2"),
        ({"min_score": 0.85}, "expected 0.8, 0.9, from which"),
        ({"false_alarms": 0.0}, "expected a share between 0 and 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            monitor(published, usual, str(tmp_path / "x"), **options)
    bare = save_folder(BlobDetector(), tmp_path / "bare")
    refused(
        ContractError, "evaluate the model and publish it again", monitor, bare, str(predicted), str(tmp_path)
    )
