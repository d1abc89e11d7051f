import numpy as np
import pytest

from detection_core.data.ahead import done_ahead
from detection_core.data.decode import class_text_table
from detection_core.data.label_map import LabelMapItem
from detection_core.data.reader import Reader
from detection_core.data.sequence import SequenceOptions
from detection_core.errors import DataError
from tests.support.cases import cases
from tests.support.dataset_files import png_that_claims
from tests.support.record_files import example, image_bytes, numbered_example, write_records


def test_truth_carries_every_flag_and_leaves_unknown_classes_out(tmp_path, caplog):
    sides = {"ymin": 0.1, "xmin": 0.2, "ymax": 0.5, "xmax": 0.9}
    fields = {f"image/object/bbox/{side}": [value] * 3 for side, value in sides.items()} | {
        "image/encoded": [image_bytes(4, 5, kind="JPEG")], "image/source_id": ["café".encode()],
        "image/object/class/text": [b"dog", b"unicorn", b"dog"], "image/object/is_crowd": [0, 0, 1],
        "image/object/difficult": [1, 0, 0], "image/object/area": [3.0, 4.0, 5.0],
    }  # fmt: skip
    path, table = written(tmp_path, example(fields)), class_text_table([LabelMapItem(id=2, name="dog")])
    ((image, truth),) = Reader(paths=(path,), table=table).truth()
    assert image.shape == (4, 5, 3) and image.dtype == np.uint8
    assert (truth.source_id, truth.height, truth.width) == ("café", 4, 5)
    found = [values.tolist() for values in (truth.classes, truth.is_crowd, truth.difficult, truth.area)]
    assert found == [[1, 1], [False, True], [True, False], [3.0, 5.0]]
    np.testing.assert_allclose(truth.boxes, [[0.1, 0.2, 0.5, 0.9]] * 2)
    (line,) = caplog.messages
    assert line.startswith("1 objects of the images read are left out: the label map does not know")


def written(folder, *records, name="a.tfrecord"):
    return write_records(folder / name, records)


def test_truth_comes_file_by_file_and_examples_and_their_bytes_are_counted(tmp_path, caplog):
    paths = [written(tmp_path, *map(numbered_example, range(i, i + 3)), name=str(i)) for i in (10, 20)]
    found = [truth.source_id for _, truth in Reader(paths=tuple(paths)).truth()]
    assert found == ["10", "11", "12", "20", "21", "22"] and not caplog.messages
    paths = tuple(written(tmp_path, *map(numbered_example, range(5)), name=name) for name in ("a", "b.gz"))
    assert Reader(paths=paths).examples() == 10
    assert Reader(paths=paths, sequence=SequenceOptions(sample_1_of_n_examples=3)).examples() == 4
    path = written(tmp_path, *[numbered_example(i, height=10, width=20) for i in range(40)])
    reader = Reader(paths=(path,))
    assert reader.decoded_bytes(limit=1 << 20) == 40 * 10 * 20 * 3
    assert reader.decoded_bytes(limit=100) > 100


@cases(
    ({"image/encoded": [b"?"], "image/source_id": [b"1"]}, "record 1"),
    # It is refused before it is decoded.
    ({"image/encoded": [png_that_claims(60_000, 60_000)]}, "at most 134,217,728 pixels, found 60000x60000"),
)
def test_truth_names_what_cannot_be_decoded(tmp_path, *, fields, message):
    truth = Reader(paths=(written(tmp_path, numbered_example(0), example(fields)),)).truth()
    assert next(truth)[1].source_id == "0"
    with pytest.raises(DataError, match=message):
        next(truth)


def test_large_images_are_not_decoded_all_at_once(tmp_path, monkeypatch):
    asked = []

    def watched(items, work, cost, *, budget):
        costs = []
        asked.append((budget, costs))
        return done_ahead(items, work, lambda item: costs.append(cost(item)) or costs[-1], budget=budget)

    monkeypatch.setattr("detection_core.data.reader.done_ahead", watched)
    path = written(tmp_path, *(numbered_example(n, height=60, width=90) for n in range(4)))
    assert len(list(Reader(paths=(path,)).truth())) == 4
    ((budget, costs),) = asked
    assert costs == [60 * 90 * 3] * 4 and budget <= 1 << 28
