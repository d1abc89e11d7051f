import shutil

import numpy as np
import pytest

from detection_core.artifacts.ensemble import ENSEMBLE, Ensemble, members
from detection_core.errors import ConfigError, ContractError, ModelError
from detection_core.evaluation.ensemble_runner import EnsembleRunner, write_ensemble
from detection_core.evaluation.runner import load_runner
from detection_core.tasks.predict import predict
from tests.support.blob_artifacts import save_model
from tests.support.blobs import BlobDetector, scenes
from tests.support.cases import refused
from tests.support.evaluated_images import make_detections

IMAGE = scenes(1)[0][0]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detectors")
    save_model(BlobDetector(), folder / "a")
    save_model(BlobDetector(score=0.6, shift=0.02), folder / "b")
    save_model(BlobDetector(), folder / "other", names=["cat", "dog"])
    return folder


def test_an_object_that_all_detectors_see_is_found_once_under_its_name(root, tmp_path):
    write_ensemble(str(tmp_path), [str(root / "a"), str(root / "b")])
    found = load_runner(str(tmp_path))(IMAGE, "x")
    one, other = (load_runner(str(root / name))(IMAGE) for name in "ab")
    np.testing.assert_allclose(found.boxes[0], one.boxes[0] * 0.6 + other.boxes[0] * 0.4, atol=1e-6)
    assert found.source_id == "x" and len(found.scores) == 1
    assert found.scores[0] == pytest.approx(0.75)
    (found,) = predict(str(tmp_path), [IMAGE])
    assert [d.name for d in found.detections] == ["red"]


class Fixed:
    """Finds what it was told to."""

    path = "fixed"

    def __init__(self, *rows):
        self._rows = rows

    def __call__(self, image, source_id=""):
        boxes, scores = [box for box, _ in self._rows], [score for _, score in self._rows]
        return make_detections(boxes, scores, [0] * len(scores), source_id)


def test_what_one_of_two_sees_counts_half_and_nothing_is_nothing():
    runner = EnsembleRunner("e", [Fixed(((0, 0, 1, 1), 0.8)), Fixed()])
    assert runner(IMAGE).scores.tolist() == pytest.approx([0.4])
    assert EnsembleRunner("e", [Fixed(), Fixed()])(IMAGE).boxes.shape == (0, 4)


def test_what_makes_no_ensemble_is_refused_when_written_and_when_read(root, tmp_path):
    for count, threshold in ((1, 0.5), (0, 0.5), (2, 0.0), (2, 1.1), (2, float("nan"))):
        with pytest.raises(ConfigError, match="expected two or more detectors"):
            write_ensemble(str(tmp_path), [str(root / "a")] * count, iou_threshold=threshold)
    (tmp_path / "ensemble.json").write_text("{")
    refused(ContractError, r"ensemble\.json", load_runner, str(tmp_path))
    paths = [str(root / "a"), str(root / "other")]
    with pytest.raises(ModelError, match=r"expected the classes of .*a, found class 1 to be 'cat'"):
        write_ensemble(str(tmp_path), paths)
    ENSEMBLE.write(str(tmp_path), Ensemble(detectors=tuple(paths), iou_threshold=0.55))
    refused(ModelError, "found class 1 to be 'cat'", load_runner, str(tmp_path))


def test_relative_paths_start_at_the_folder_so_that_it_moves_with_its_detectors(root, tmp_path):
    for name in "ab":
        shutil.copytree(root / name, tmp_path / "before" / name)
    ensemble = Ensemble(detectors=("a", "b"), iou_threshold=0.55)
    ENSEMBLE.write(str(tmp_path / "before"), ensemble)
    (tmp_path / "before").rename(tmp_path / "after")
    assert members(str(tmp_path / "after")) == (f"{tmp_path}/after/a", f"{tmp_path}/after/b")
    assert len(load_runner(str(tmp_path / "after"))(IMAGE).scores) == 1
