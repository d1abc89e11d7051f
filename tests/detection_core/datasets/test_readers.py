import pytest

from detection_core.datasets.readers import READERS, find_reader, register_reader, unregister_reader
from detection_core.errors import ConfigError
from pipeline.settings.workflow_settings import DataSettings
from tests.detection_core.datasets.dataset_files import Coco, write_voc


@pytest.mark.parametrize("data_format", READERS)
def test_a_reader_reads_what_it_locates(tmp_path, data_format):
    path = {"coco": lambda: Coco(tmp_path).write(), "voc": lambda: write_voc(tmp_path)}[data_format]()
    reader = find_reader(data_format)
    found = reader.read(path, None)
    assert found.images and found.categories and not found.rejected
    located = [p for p in reader.locate(path, None) if p]
    assert any(found.images[0].path.startswith(p) for p in located)


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"coco.*voc.*found 'yolo9'"):
        find_reader("yolo9")


def test_a_format_from_outside_is_one_that_settings_may_name():
    with pytest.raises(ValueError, match="coco"):
        DataSettings(path="data", format="toy")
    register_reader("toy", READERS["coco"])
    try:
        assert DataSettings(path="data", format="toy").format == "toy"
        assert find_reader("toy") is READERS["coco"]
        with pytest.raises(ValueError, match="'toy', which is taken"):
            register_reader("toy", READERS["voc"])
        with pytest.raises(ValueError, match="coco"):
            DataSettings(path="data", format="yolo9")
    finally:
        unregister_reader("toy")
    with pytest.raises(ConfigError, match="found 'toy'"):
        find_reader("toy")
