from unittest.mock import Mock

import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import LEFT_OUT
from detection_core.data import left_out
from detection_core.data.decode import decode_example
from detection_core.data.left_out import find_undecodable, left_out_table, load_left_out, save_left_out
from detection_core.data.reader import Reader
from detection_core.errors import DataError
from tests.support.cases import refused
from tests.support.record_files import example, numbered_example, write_records

BAD = example({"image/encoded": [b"nothing"], "image/source_id": [b"17"], "image/filename": [b"a.png"]})


@pytest.fixture
def paths(tmp_path):
    whole = [numbered_example(n) for n in range(6)]
    first = write_records(tmp_path / "a.tfrecord", [*whole[:3], BAD])
    return [first, write_records(tmp_path / "b.tfrecord", [b"\xff" * 50, *whole[3:]])]


def test_what_does_not_decode_is_named_kept_and_left_out_by_a_reader(paths, tmp_path):
    found = find_undecodable(paths, decode_example)
    named = [(paths[0], 3, "17, a.png"), (paths[1], 0, "without a name")]
    assert [(record.path, record.index, record.image) for record in found] == named
    assert found[1].reason == "it is no tf.Example" and "nothing" not in found[0].reason
    assert load_left_out(str(tmp_path)) == [] and left_out_table(str(tmp_path)) == {}
    save_left_out(str(tmp_path), found)
    assert load_left_out(str(tmp_path)) == found
    assert left_out_table(str(tmp_path)) == {LEFT_OUT.name: (tmp_path / LEFT_OUT.name).read_text()}
    records = tf.data.Dataset.from_tensors(b"a")
    assert left_out.without(records, ()) is records
    # These say nothing of a record.
    for kind, message in (
        (tf.errors.ResourceExhaustedError, "OOM when allocating a tensor"),
        (tf.errors.UnknownError, "OSError: [Errno 24] Too many open files"),
    ):
        failing = Mock(side_effect=kind(None, None, message))
        refused(kind, "", find_undecodable, paths, failing)
    found = find_undecodable(paths, decode_example)
    reader = Reader(paths=tuple(paths)).leaving_out(found)
    assert reader.examples() == 6
    assert sorted(truth.source_id for _, truth in reader.truth()) == [str(n) for n in range(6)]
    first_epoch = reader.shuffled_records(seed=0, first_epoch=0).take(12)
    names = [reader.decode(seeded.element).sample.source_id.numpy() for seeded in first_epoch]
    assert sorted(names) == sorted([str(n).encode() for n in range(6)] * 2)
    with pytest.raises(DataError, match=r"record 3: .*image '17, a\.png'"):
        list(Reader(paths=tuple(paths)).truth())
