"""MediaPipe Model Maker's calls: float, quantized in training, float again."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from detection_core import ConfigError, DataError
from detflow import object_detector
from detflow.quantization import QuantizationConfig
from tests.support.cases import refused
from tests.support.refusals import refused_at
from tests.support.scenes import draw, write_coco

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_coco(folder / "labels.json", draw(folder / "images", 6), background=True)
    found = object_detector.Dataset.from_coco_folder(str(folder), cache_dir=str(folder / "cache"))
    assert found.size == 6  # the guide prints it
    return found


def options(folder, **changes):
    hparams = object_detector.HParams(epochs=1, batch_size=2, steps_per_epoch=2, export_dir=str(folder))
    return object_detector.ObjectDetectorOptions(
        supported_model=object_detector.SupportedModels.MOBILENET_V2, hparams=hparams, **changes
    )


def input_of(path):
    (taken,) = Interpreter(str(path)).get_input_details()
    return taken["dtype"], tuple(taken["shape"])


@pytest.mark.zoo
def test_the_customization_guide_cell_by_cell(data, tmp_path, capsys):
    """MediaPipe's guide with fewer images and epochs; its network, MOBILENET_MULTI_AVG, is refused."""
    create = object_detector.ObjectDetector.create
    model = create(train_data=data, validation_data=data, options=options(tmp_path))
    assert isinstance(model, object_detector.MediaPipeDetector)
    losses, found = model.evaluate(data, batch_size=4)
    assert "evaluate | image 6/6" in capsys.readouterr().out
    total, classes, boxes, both = losses
    assert 0 < both == classes + boxes < total and {"AP", "AP50", "AP ByCategory/circle"} <= set(found)
    model.export_model()
    assert input_of(tmp_path / "model.tflite") == (np.float32, (1, 256, 256, 3))
    hparams = object_detector.QATHParams(batch_size=6, epochs=1, learning_rate=0.01)
    model.quantization_aware_training(data, data, hparams)
    model.export_model("quantized.tflite")
    assert input_of(tmp_path / "quantized.tflite") == (np.uint8, (1, 256, 256, 3))
    assert (tmp_path / "quantized.tflite").stat().st_size < (tmp_path / "model.tflite").stat().st_size / 2
    with refused_at("quantization_config", "restore_float_ckpt"):
        model.export_model(quantization_config=QuantizationConfig.for_int8(data))
    refused(ConfigError, "restore_float_ckpt", model.quantization_aware_training, data, data, hparams)
    model.restore_float_ckpt()
    more = {"learning_rate": 0.1, "batch_size": 6, "epochs": 1, "decay_steps": 5, "decay_rate": 0.96}
    model.quantization_aware_training(data, None, qat_hparams=object_detector.QATHParams(**more))
    assert len(model.evaluate(data)[0]) == 4
    model.restore_float_ckpt()
    model.export_model(model_name="model_fp16.tflite", quantization_config=QuantizationConfig.for_float16())
    assert input_of(tmp_path / "model_fp16.tflite")[0] == np.float32 and model.evaluate(data)[1] == found
    model.export_labels(tmp_path)
    assert (tmp_path / "labels.txt").read_text() == "circle\nsquare\n"


def test_what_is_refused_before_training(data, tmp_path):
    create = object_detector.ObjectDetector.create
    with refused_at("options"):
        create(data, data, options(tmp_path), epochs=3)
    large = options(tmp_path)
    large.hparams.batch_size = 64
    with refused_at("hparams.batch_size"):
        create(data, None, large)
    other = object_detector.DataLoader(data.tfrecord_file_patten, 6, ["circle", "star"])
    with refused_at("validation_data", error=DataError):
        create(data, other, options(tmp_path))
    with pytest.raises(ConfigError, match="expected a checkpoint"):
        create(data, None, options(tmp_path, start_from=str(tmp_path / "nothing")))
