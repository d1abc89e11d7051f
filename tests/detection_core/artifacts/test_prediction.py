import json

from detection_core.artifacts.prediction import DetectedObject, Prediction, read_prediction, write_prediction

FOUND = DetectedObject(label=3, name="cat", score=0.123456789, box=(0.1, 0.2, 1 / 3, 1.0))
PREDICTION = Prediction(image="a.png", height=4, width=6, detections=(FOUND,), picture="out/a.jpg")


def test_a_file_says_class_and_five_decimals_and_is_read_back(tmp_path):
    write_prediction(str(tmp_path / "a"), PREDICTION)
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == PREDICTION.as_json()
    found = {"class": 3, "name": "cat", "score": 0.12346, "box": [0.1, 0.2, 0.33333, 1.0]}
    assert written["detections"] == [found]
    assert read_prediction(str(tmp_path / "a.json")).as_json() == written
    assert Prediction(image="a.png", error="no image").as_json() == {"image": "a.png", "error": "no image"}
