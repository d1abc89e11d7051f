from detection_core.artifacts.benchmark import BENCHMARK
from tests.support.blobs import BlobDetector, save
from tests.support.edge_files import convolutions


def test_table_json_and_page_of_two_versions(tmp_path, cli):
    files = [tmp_path / version for version in ("1", "2")]
    for folder in files:
        folder.mkdir()
        (folder / "m.tflite").write_bytes(convolutions())
    words = ["bench", *files, "--runs", "3", "--threads", "1", "--delegates", "xnnpack"]
    text = cli(*words, "--output", tmp_path / "out")
    assert "1/m.tflite" in text and "2/m.tflite" in text and "CONV_2D" in text and "images/s" in text
    assert len(BENCHMARK.read(str(tmp_path / "out")).files) == 2
    assert "<h1>Benchmark</h1>" in (tmp_path / "out" / "index.html").read_text()
    assert [file["operators"] for file in cli.json(*words, "--no-operators")["files"]] == [[], []]


def test_saved_models_are_measured_by_size_of_the_batch_or_refused_in_one_message(tmp_path, cli):
    saved_model = save(BlobDetector(), tmp_path / "model")
    words = ["bench", saved_model, "--batch-sizes", "1,2", "--runs", "3", "--image-size", "40x30"]
    (found,) = cli.json(*words)  # a batch of two is not what this model takes
    assert found["batch_size"] == 1 and found["images_per_second"] > 0
    assert "images/s" in cli(*words)
    (tmp_path / "m.tflite").write_bytes(b"no model")
    for words, message in (
        (["gone"], "expected"),
        ([tmp_path / "m.tflite"], "expected"),
        ([tmp_path, "--threads", "x"], "expected"),
        ([saved_model, "--image-size", "40"], "expected WIDTHxHEIGHT"),
        ([saved_model, "--image-size", "4²x30"], "expected WIDTHxHEIGHT"),
        ([saved_model, "--batch-sizes", "one"], "--batch-sizes: expected numbers"),
        ([saved_model, "--batch-sizes", "0"], "expected batches, runs and image sides from 1"),
        ([saved_model, "other.tflite"], "other.tflite: expected SavedModels alone"),
    ):
        assert message in cli.refused("bench", *words)
