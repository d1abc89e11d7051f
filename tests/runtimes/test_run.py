"""Other runtimes find what the SavedModel finds; `make test-runtimes`.

Each has a separate environment below the folder DETFLOW_RUNTIMES.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ModelError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
from tests.mediapipe.test_object_detector import LABELS, detector, pictures

ENVIRONMENTS = os.environ.get("DETFLOW_RUNTIMES", "")
pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.skipif(not ENVIRONMENTS, reason="DETFLOW_RUNTIMES names no folder of environments"),
]
NETWORKS = (
    "ssd_mobilenet_v2_320x320_coco17_tpu-8",
    "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8",
    "ssd_resnet50_v1_fpn_640x640_coco17_tpu-8",
    "efficientdet-lite0",
)
NAMES = {
    "portable": ("num_detections", "detection_scores", "detection_classes", "detection_boxes"),
    "portable_heads": ("location", "score"),
}
# Sums of float32 in another order: logits of 5 come out 0.00013 apart on some processors.
RELATIVE, ABSOLUTE = 1e-4, 1e-4
# Environment, what is run in it, and on what. OpenCV runs what tf2onnx wrote, so it comes after it.
RUNS = [(name, name, signatures) for signatures in NAMES for name in ("onnx", "openvino")]
OF_HEADS = (("opencv", "opencv_onnx"), ("opencv", "opencv"), ("opencv4", "opencv"), ("coreml", "coreml"))
RUNS += [(*run, "portable_heads") for run in OF_HEADS]


@pytest.fixture(scope="module", params=NETWORKS)
def exported(request, tmp_path_factory):
    """Signatures to a folder with a SavedModel, a frozen graph and an image."""
    folder = tmp_path_factory.mktemp("exported")
    model, config = detector(request.param)
    labels = label_map_from_names(LABELS)
    write_detector(model, config, labels, str(folder / "detector"))
    for signatures in NAMES:
        options = SavedModelOptions(signatures=signatures, frozen_graph=True)
        export_saved_model(str(folder / "detector"), str(folder / signatures), options)
        np.save(folder / signatures / "images.npy", pictures()[:1].astype(np.float32))
    return folder


def run_in(environment, runtime, folder, signatures):
    """Convert and run a model in an environment."""
    python = f"{ENVIRONMENTS}/{environment}/bin/python"
    command = [python, str(Path(__file__).with_name("run.py")), runtime, str(folder)]
    variables = {"OUTPUTS": ",".join(NAMES[signatures]), "PATH": os.environ["PATH"]}
    variables["TF_CPP_MIN_LOG_LEVEL"] = "3"
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=variables)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(("environment", "runtime", "signatures"), RUNS)
def test_a_runtime_finds_what_tensorflow_finds(exported, environment, runtime, signatures):
    folder = exported / signatures
    run_in(environment, runtime, folder, signatures)
    found = np.load(folder / f"{runtime}.npz")
    served = tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"]
    expected = {name: v.numpy() for name, v in served(tf.constant(np.load(folder / "images.npy"))).items()}
    assert set(expected) == set(NAMES[signatures])
    if runtime == "coreml":  # converted, and not run
        assert sorted(map(tuple, found.values())) == sorted(v.shape for v in expected.values())
        return
    assert set(found) == set(expected)
    for name in ("num_detections", "detection_scores", "location", "score"):
        if name in expected:
            np.testing.assert_allclose(found[name], expected[name], RELATIVE, ABSOLUTE, err_msg=name)
    if "detection_boxes" in expected:
        # Part of the rows with the same class and box.
        count = int(expected["num_detections"][0])
        near = np.abs(found["detection_boxes"] - expected["detection_boxes"])[0, :count].max(axis=1) < 1e-3
        alike = found["detection_classes"][0, :count] == expected["detection_classes"][0, :count]
        assert np.mean(near & alike) >= 0.95  # equal scores may change places


@pytest.fixture
def onnx(exported, monkeypatch):
    """Detector folder of a network, and its ONNX files by signatures."""
    paths = {signatures: exported / signatures / "model.onnx" for signatures in NAMES}
    for signatures, path in paths.items():
        if not path.exists():
            run_in("onnx", "onnx", path.parent, signatures)
    # Behind our own packages, so that only what these lack comes from there.
    (packages,) = Path(ENVIRONMENTS, "onnx", "lib").glob("python*/site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    return exported / "detector", {signatures: str(path) for signatures, path in paths.items()}


def test_an_onnx_file_is_a_model_like_any_other(onnx):
    folder, files = onnx
    runner, served = load_runner(files["portable"], threads=1), load_runner(str(folder))
    for image in (pictures()[0].astype(np.uint8), np.repeat(pictures()[0].astype(np.uint8), 2, axis=1)):
        found, expected = runner(image, "a"), served(image, "a")
        assert (found.height, found.width) == image.shape[:2] and found.source_id == "a"
        np.testing.assert_allclose(found.scores, expected.scores, RELATIVE, ABSOLUTE)
        near = np.abs(found.boxes - expected.boxes).max(axis=1) < 1e-3
        assert np.mean(near & (found.classes == expected.classes)) >= 0.95  # equal scores may change places
    with pytest.raises(ModelError, match="expected images of 3 channels, found 4"):
        runner(np.zeros([8, 8, 4], np.uint8))


def test_an_onnx_file_that_is_no_detector_is_one_error(onnx, tmp_path):
    _, files = onnx
    (tmp_path / "damaged.onnx").write_bytes(Path(files["portable"]).read_bytes()[:1000])
    for path, reason in (
        (files["portable_heads"], "found images:0 tensor.float. .* and location:0, score:0"),
        (str(tmp_path / "damaged.onnx"), "found one that it refuses"),
    ):
        with pytest.raises(ModelError, match=reason):
            load_runner(path)
