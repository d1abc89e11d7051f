from unittest import mock

from detection_core.artifacts.parity import LayerNoise, NetworkParity
from detection_core.tasks import compare_file as task

LAYERS = [LayerNoise(layer=f"layer_{i}", operation="CONV_2D", db=50.0 - i) for i in range(24)]
NEAR = NetworkParity(images=2, least_db=20.0, heads={"class_logits": 40.0, "box_codes": 31.25}, layers=LAYERS)
APART = NetworkParity(
    images=2, least_db=20.0, heads={"box_codes": 3.0}, layer="tower", operation="ADD", layer_db=4.0,
    layers=LAYERS,
)  # fmt: skip
WORDS = ["compare", "f.tflite", "--model", "m", "--examples", "e"]


def test_heads_and_the_noisiest_operations_or_all_as_they_run(monkeypatch, cli):
    compare = mock.Mock(return_value=NEAR)
    monkeypatch.setattr(task, "compare_file", compare)
    more = ["--images", "2", "--split", "test", "--representative-examples", "9", "--quantized-model", "q"]
    rows = [line.split() for line in cli(*WORDS, *more).splitlines()]
    options = task.CompareOptions(images=2, split="test", representative_examples=9)
    compare.assert_called_once_with("f.tflite", "m", "e", options, quantized_model_dir="q")
    assert ["box_codes", "31.2"] in rows and ["class_logits", "40.0"] in rows
    listed = [row for row in rows if row and row[0].startswith("layer_")]
    assert listed[0] == ["layer_23", "CONV_2D", "27.0"] and len(listed) == 20
    rows = [line.split() for line in cli(*WORDS, "--all").splitlines()]
    listed = [row[1] for row in rows if len(row) == 4 and row[1].startswith("layer_")]
    assert listed == [layer.layer for layer in LAYERS]


def test_what_is_apart_is_named_and_is_a_problem_and_a_missing_file_is_one_line(monkeypatch, cli, tmp_path):
    told = cli.refused("compare", tmp_path / "none.tflite", "--model", "m", "--examples", "e")
    assert f"{tmp_path}/none.tflite: expected a .tflite file, found none" in told
    monkeypatch.setattr(task, "compare_file", lambda *_, **__: APART)
    assert "first apart: tower (ADD, 4.0 dB)" in cli(*WORDS, code=1)
    found = cli.json(*WORDS, code=1)
    assert found["layer"] == "tower" and found["problems"][0].startswith("raw heads box_codes 3.0 dB")
