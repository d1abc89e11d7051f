"""Pictures of what training sees."""

import io

import numpy as np
import pytest
from google.protobuf import text_format
from PIL import Image

from detection_core.config.input_paths import point_at_examples
from detection_core.errors import ConfigError
from detection_core.protos import pipeline_pb2
from detection_core.tasks.preview import preview_training_input
from tests.support.cases import refused
from tests.support.made_examples import Made, write_examples

CONFIG = """
model { ssd { num_classes: 2 image_resizer { fixed_shape_resizer { height: 40 width: 50 } } } }
train_config { batch_size: 2 num_steps: 4 %s }
train_input_reader {}
"""
FLIP = "data_augmentation_options { random_horizontal_flip { probability: 1 } }"
BRIGHTER = "data_augmentation_options { random_adjust_brightness { max_delta: 0.3 } }"


@pytest.fixture
def examples(tmp_path):
    made = [Made(boxes=((0.1, 0.1, 0.5, 0.4),), classes=("dog",)) for _ in range(6)]
    return write_examples(tmp_path / "examples", {"train": made, "eval": [Made()]})


def config(examples, augmentation=FLIP + BRIGHTER):
    parsed = text_format.Parse(CONFIG % augmentation, pipeline_pb2.TrainEvalPipelineConfig())
    return point_at_examples(parsed, examples)


def preview(examples, folder, **options):
    given = options.pop("config", None) or config(examples)
    return preview_training_input(given, str(folder), **options)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_seed_gives_the_same_pictures_and_another_one_others(examples, tmp_path):
    first = preview(examples, tmp_path / "a", seed=5, count=4, title="<c>")
    preview(examples, tmp_path / "b", seed=5, count=4, title="<c>")
    other = preview(examples, tmp_path / "c", seed=6, count=4, title="<c>")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["contact_sheet.png"] != contents(tmp_path / "c")["contact_sheet.png"]
    assert (first.seed, len(first.source_ids), other.seed) == (5, 4, 6)
    names = [text.partition(" ")[0] for text in first.augmentations]
    assert names == ["random_horizontal_flip", "random_adjust_brightness"]
    page = (tmp_path / "a" / "index.html").read_text()
    assert "seed 5" in page and "&lt;c&gt;" in page and "max_delta: 0.3" in page
    assert "<script" not in page and "://" not in page
    for name in first.source_ids:
        assert name in page


def test_left_is_the_image_and_right_what_the_flip_made_of_it(examples, tmp_path):
    preview(examples, tmp_path, config=config(examples, FLIP), count=1)
    sheet = np.asarray(Image.open(io.BytesIO(contents(tmp_path)["contact_sheet.png"]))).astype(int)
    # 64 x 48 and 50 x 40 pixels, each drawn 360 wide, 270 and 288 high under a title of 24.
    before, after = sheet[24 : 24 + 270, :360], sheet[24 : 24 + 288, 366 : 366 + 360]
    right = np.asarray(Image.fromarray(after.astype(np.uint8)).resize((360, 270))).astype(int)
    # Below the boxes, which are drawn on both.
    mirrored, same = (np.abs(before[160:] - r[160:]).mean() for r in (right[:, ::-1], right))
    assert mirrored < 6 < same


def test_the_page_says_what_no_augmentation_and_stretched_values_show(examples, tmp_path):
    found = preview(examples, tmp_path, config=config(examples, ""), count=9)
    assert found.augmentations == () and "images are resized only" in (tmp_path / "index.html").read_text()
    # Of more images than there are some come again.
    assert len(found.source_ids) == 9 and len(set(found.source_ids)) == 6
    step = "normalize_image { original_minval: 0 original_maxval: 255 target_minval: -1 target_maxval: 1 }"
    preview(examples, tmp_path, config=config(examples, f"data_augmentation_options {{ {step} }}"), count=1)
    assert "stretched to be seen" in (tmp_path / "index.html").read_text()
    for count in (0, 201):
        refused(ConfigError, "expected 1 to 200", preview, examples, tmp_path / "out", count=count)
    assert not (tmp_path / "out").exists()


def test_mixed_images_are_shown_and_a_length_in_epochs_is_followed(examples, tmp_path):
    mosaic = "data_augmentation_options { mosaic { height: 80 width: 100 min_fraction: 0.4 } }"
    mixing = config(examples, mosaic + FLIP)
    mixing.train_config.ClearField("num_steps")
    mixing.train_config.num_epochs = 2.0  # of three updates each
    preview(examples, tmp_path / "a", config=mixing, count=6)
    page = (tmp_path / "a" / "index.html").read_text()
    assert "mosaic" in page and page.count("before: 64 x 48, 1 objects") == 12  # each twice
    assert page.count("after: 50 x 40, 4 objects") == 12
    mixing.train_config.close_mosaic_epochs = 1.0
    preview(examples, tmp_path / "b", config=mixing, count=12)
    page = (tmp_path / "b" / "index.html").read_text()
    assert page.count("after: 50 x 40, 4 objects") == page.count("after: 50 x 40, 1 objects")
