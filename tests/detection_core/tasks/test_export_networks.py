"""Which network a file is made from, and on which images layers are chosen that stay in float."""

from typing import Any

import pytest

from detection_core.artifacts.tflite_provenance import Provenance
from detection_core.config.input_paths import evaluating_training, point_at_examples, point_at_other_split
from detection_core.exporters.tflite_formats import FORMATS, Network
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.export_networks import ExportNetworks, ExportSource


def source(quantized_dir: str) -> ExportSource:
    nothing: Any = None
    return ExportSource(
        detector=nothing, config=nothing, quantized_dir=quantized_dir, representative_examples=1
    )


def test_a_format_s_network_is_of_the_detector_that_it_names():
    for name, alone, beside in (
        ("float32", "float", "float"),
        ("int4_weights", "float", "float"),
        ("int8", "float", "quantization_aware"),
        ("int8_post_training", "float", "float"),
        ("int8_mixed", "float", "float"),
        ("int8_mixed_aware", "quantization_aware", "quantization_aware"),
        ("int4_weights_aware", "quantization_aware", "quantization_aware"),
    ):
        network = FORMATS[name].network
        found = [ExportNetworks(source(folder)).made_from(network) for folder in ("", "quantized")]
        assert found == [alone, beside], name
    assert Provenance().made_from == ""


def test_without_a_trained_one_integers_are_those_of_the_float_network():
    assert ExportNetworks(source("")).there(Network.AWARE) is Network.POST_TRAINING
    assert ExportNetworks(source("folder")).there(Network.AWARE) is Network.AWARE


@pytest.mark.parametrize(
    ("splits", "reported", "wanted"),
    [(("eval", "test"), "test", "eval"), (("eval", "test"), "eval", "test"), (("test",), "test", "train")],
)
def test_layers_are_chosen_on_other_images_than_those_reported_on(tmp_path, splits, reported, wanted):
    for split in ("train", *splits):
        (tmp_path / f"Split-{split}").mkdir()
    config = point_at_examples(TrainEvalPipelineConfig(), str(tmp_path), eval_split=reported)
    (reader,) = point_at_other_split(config, str(tmp_path), reported).eval_input_reader
    assert f"Split-{wanted}/" in reader.tf_record_input_reader.input_path[0]
    (reported_on,) = config.eval_input_reader
    assert f"Split-{reported}/" in reported_on.tf_record_input_reader.input_path[0]


def test_where_no_folder_is_known_they_are_those_trained_on():
    config = point_at_examples(TrainEvalPipelineConfig(), "examples", eval_split="test")
    (reader,) = evaluating_training(config).eval_input_reader
    assert "Split-train/" in reader.tf_record_input_reader.input_path[0] and not reader.shuffle
