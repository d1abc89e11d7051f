from detection_core.data.example_columns import column_fault, encoded_image, image_name
from tests.support.record_files import example, numbered_example


def test_faults_and_names_of_records():
    assert column_fault(numbered_example(3)) == ""
    assert column_fault(example({"image/encoded": [b"x"]})) == ""
    assert encoded_image(example({"image/encoded": [b"x"]})) == b"x"
    for use, found in ((column_fault, "it is no tf.Example"), (image_name, "without a name")):
        assert use(b"\xff" * 20) == found
    assert encoded_image(b"\xff" * 20) == b""
    fields = {f"image/object/bbox/{side}": [0.5] for side in ("ymin", "xmin", "ymax")}
    fault = column_fault(example({**fields, "image/object/class/label": [1]}))
    assert fault == "expected an entry for each of 1 boxes, found 0 in image/object/bbox/xmax"
    for filename, name in ((b"7", "7"), (b"a\xff.png", "7, a\\xff.png")):
        assert image_name(example({"image/source_id": [b"7"], "image/filename": [filename]})) == name
