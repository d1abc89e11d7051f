"""Images with a depth channel: from records of the Object Detection API to every kind of file."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from component_specs import ExampleGenJob
from components.example_gen.run import run as make
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.data.decode import ADDITIONAL_CHANNELS
from detection_core.data.record_format import write_record
from detection_core.data.records import read_records
from detection_core.errors import ConfigError, ExportError, ModelError
from detection_core.evaluation.loaded_model import load_saved_model
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.evaluate import plan_evaluation
from detection_core.tasks.export import export_tflite
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
from detection_core.tasks.exporting.parity import TFLiteExportOptions
from detection_core.tasks.predict import predict
from tests.support import detectors
from tests.support.cases import refused
from tests.support.detectors import family_config, train_below

READER = "{ num_additional_channels: 1 tf_record_input_reader { } }"


def with_depth(record: bytes) -> bytes:
    """Add a plane to a record: 200 in the boxes, 50 around them."""
    example = tf.train.Example.FromString(record)
    feature = example.features.feature
    plane = np.full((64, 64, 1), 50, np.uint8)
    names = (f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
    ymin, xmin, ymax, xmax = (round(64 * feature[name].float_list.value[0]) for name in names)
    plane[ymin:ymax, xmin:xmax] = 200
    feature[ADDITIONAL_CHANNELS].bytes_list.value.append(tf.io.encode_png(plane).numpy())
    return example.SerializeToString()


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Examples of ExampleGen, made of records with a depth channel."""
    folder = tmp_path_factory.mktemp("channels")
    (source,) = (detectors.examples() / "Split-train").glob("*.tfrecord*")
    (folder / "records").mkdir()
    for split in ("train", "eval"):
        with open(folder / "records" / f"{split}.tfrecord", "wb") as file:
            for record in tf.data.TFRecordDataset(str(source)).as_numpy_iterator():
                write_record(file, with_depth(record))
    shutil.copy(detectors.examples() / "label_map.pbtxt", folder / "records")
    splits = {"train": "train.tfrecord", "eval": "eval.tfrecord"}
    made, data = str(folder / "examples"), str(folder / "records")
    make(ExampleGenJob(examples=made, data_path=data, data_format="tfrecord", splits=splits))
    return made


@pytest.fixture(scope="module")
def trained(examples, tmp_path_factory):
    """A detector of four channels that starts from one of three."""
    import tests.support.plain_backbone  # noqa: F401

    folder = tmp_path_factory.mktemp("trained")
    text = f"{family_config('plain', 6)} train_input_reader {READER} eval_input_reader {READER}"
    config = point_at_examples(parse_pipeline_config(text), examples, eval_split="eval")
    train_below(folder, config, warm_start_dir=str(detectors.trained("plain") / "model"))
    return folder / "model"


@pytest.mark.slow
def test_a_detector_of_four_channels_is_trained_measured_and_exported(trained, examples, tmp_path):
    model = load_detector(str(trained)).model
    assert model.channels == 4
    ((_, images),) = load_saved_model(str(trained)).inputs.items()
    assert images.shape.as_list() == [None, None, None, 4] and images.dtype == tf.uint8
    report = plan_evaluation(
        model_path=str(trained), evaluation_dir=str(tmp_path / "eval"), examples_dir=examples
    ).run()
    assert report.images == 6 and (tmp_path / "eval" / "pictures" / "index.jsonl").exists()
    options = TFLiteExportOptions(
        max_map_drop=2.0, formats=("float32", "int8"), representative_examples=2, latency_runs=0
    )
    places = {"tflite_dir": str(tmp_path / "tflite"), "parity_dir": str(tmp_path / "parity")}
    parity = export_tflite(str(trained), examples, options, **places)
    assert {file.format: file.apart for file in parity.files} == {"float32": [], "int8": []}
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 4), np.uint8)
    for path in (str(trained), str(tmp_path / "tflite" / "model_float32.tflite")):
        runner = load_runner(path)
        assert runner(pixels).height == 64
        # The further channel counts.
        changed = np.concatenate([pixels[..., :3], 255 - pixels[..., 3:]], axis=-1)
        assert not np.array_equal(runner(changed).scores, runner(pixels).scores)
        message = "expected images of 4 channels, found 3"
        refused(ModelError, message, runner, pixels[..., :3])
    Path(tmp_path / "a.png").write_bytes(tf.io.encode_png(pixels[..., :3]).numpy())
    refused(ModelError, "num_additional_channels", predict, str(trained), [str(tmp_path / "a.png")])


@pytest.mark.slow
def test_served_records_have_the_channels_and_encoded_files_cannot(trained, examples, tmp_path):
    for kind in ("tf_example", "float_image_tensor"):
        export_saved_model(str(trained), str(tmp_path / kind), SavedModelOptions(input_type=kind))
    wrong = SavedModelOptions(input_type="encoded_image_string_tensor")
    words = (str(trained), str(tmp_path / "no"), wrong)
    refused(ExportError, "expected an input with 4 channels", export_saved_model, *words)
    (file,) = (Path(examples) / "Split-eval").glob("*.tfrecord*")
    record = next(read_records(str(file)).as_numpy_iterator())
    served = tf.saved_model.load(str(tmp_path / "tf_example" / "saved_model")).signatures["serving_default"]
    found = served(tf.constant([record]))
    assert found["detection_boxes"].shape[0] == 1


def test_a_kernel_of_three_channels_is_taken_over_and_the_fourth_starts_at_zero(examples, tmp_path):
    import tests.support.plain_backbone  # noqa: F401
    from detection_core.builders.detector import configured_model
    from detection_core.config.check import check_detector
    from detection_core.training.restore import copy_matching_weights

    source = load_detector(str(detectors.trained("plain") / "model")).model
    text = f"{family_config('plain', 6)} train_input_reader {READER}"
    target = configured_model(check_detector(parse_pipeline_config(text))).build()
    assert copy_matching_weights(source, target) == len(target.variables)
    pixels = tf.random.uniform([1, 64, 64, 4], 0.0, 255.0)
    ours = target.network(target.preprocess(pixels), training=False)
    theirs = source.network(source.preprocess(pixels[..., :3]), training=False)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_readers_that_disagree_on_the_channels_are_refused():
    from detection_core.config.check import check_pipeline_config

    text = f"{family_config('plain', 6)} train_input_reader {READER} eval_input_reader {{ shuffle: false }}"
    message = r"eval_input_reader\[0\].num_additional_channels: expected 1, as in train_input_reader, found 0"
    refused(ConfigError, message, check_pipeline_config, parse_pipeline_config(text))
