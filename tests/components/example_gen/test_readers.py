import pytest

from components.example_gen.readers import READERS, find_reader
from detection_core.errors import ConfigError
from tests.components.example_gen.datasets import Coco, write_voc


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
