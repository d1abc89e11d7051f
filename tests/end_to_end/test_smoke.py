"""The shortest way through the program: `make test-changed` runs it whatever has changed."""

from PIL import Image

from tests.support.command_line import CommandLine
from tests.support.detectors import exported, trained


def test_a_trained_detector_and_its_file_are_described_and_find(tmp_path, capsys):
    cli = CommandLine(capsys)
    file = exported("ssd") / "tflite" / "model_int8.tflite"
    assert [1, 100, 4] in [output["shape"] for output in cli.json("inspect", file)["outputs"]]
    picture = tmp_path / "picture.png"
    Image.new("RGB", (64, 64), "grey").save(picture)
    for name, model in (("detector", trained("ssd") / "model"), ("file", file)):
        cli.json("predict", "--model", model, picture, "--output", tmp_path / name, "--min-score", "0.01")
        assert list((tmp_path / name).glob("picture*"))
