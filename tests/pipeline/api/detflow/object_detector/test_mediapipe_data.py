from detection_core import DataError
from detflow.object_detector import Dataset
from tests.support.cases import refused
from tests.support.refusals import refused_at
from tests.support.scenes import draw, write_coco, write_voc


def test_a_folder(tmp_path):
    folder, nothing = tmp_path / "scenes", tmp_path / "nothing"
    scenes = draw(folder / "images", 5)
    write_voc(folder / "Annotations", scenes)
    write_coco(folder / "labels.json", scenes, background=True)
    for name, read in (("coco", Dataset.from_coco_folder), ("voc", Dataset.from_pascal_voc_folder)):
        data = read(folder, cache_dir=tmp_path / name)
        assert isinstance(data, Dataset)
        assert (len(data), data.size, data.num_classes) == (5, 5, 3)
        assert data.label_names == ["background", "circle", "square"]
        (meta,) = (tmp_path / name).glob("*_meta_data.yaml")
        written = meta.stat().st_mtime_ns
        assert len(read(folder, cache_dir=tmp_path / name)) == 5 and meta.stat().st_mtime_ns == written
        first, second = data.split(0.4)
        assert isinstance(first, Dataset) and (len(first), len(second)) == (2, 3)
        assert len(read(folder, max_num_images=2)) == 2
        assert len(Dataset.from_cache(str(meta).removesuffix("_meta_data.yaml"))) == 5
    nothing.mkdir()
    refused(DataError, r"labels\.json", Dataset.from_coco_folder, nothing)
    refused(DataError, "Annotations", Dataset.from_pascal_voc_folder, nothing)
    with refused_at("max_num_images"):
        Dataset.from_coco_folder(folder, max_num_images=0)
