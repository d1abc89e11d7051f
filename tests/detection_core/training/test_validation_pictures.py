"""Pictures of the same images at each validation."""

import itertools
from pathlib import Path

import numpy as np

from detection_core.artifacts.model_run import ValidationLine
from detection_core.artifacts.pictures import list_pictures
from detection_core.training.validation_pictures import MOST_STEPS, PictureFiles, ValidationPicture, step_of

PICTURES = [
    ValidationPicture(number=i, source_id=f"image {i}", image=np.zeros([8, 16, 3], np.uint8))
    for i in range(2)
]


def begun(folder, pictures, *steps):
    action = PictureFiles(str(folder), lambda: pictures)
    action.start(0)
    for step in steps:
        action.validated(ValidationLine(step=step))


def steps(folder):
    return sorted({step_of(Path(p.path).name) for p in list_pictures(str(folder))})


def files_there(folder):
    return sorted({step_of(path.name) for path in (folder / "pictures").glob("*.jpg")})


def test_each_picture_has_its_image_and_its_step_and_files_of_others_have_none(tmp_path):
    begun(tmp_path, PICTURES, 1200)
    found = list_pictures(str(tmp_path))
    assert [(p.source_id, p.caption) for p in found] == [("image 0", "step 1,200"), ("image 1", "step 1,200")]
    assert all(p.read().startswith(b"\xff\xd8\xff") for p in found)
    begun(tmp_path / "nothing", (), 10)
    assert not (tmp_path / "nothing").exists()
    names = ("side_by_side_00001.jpg", "step_x_1.jpg", "step_000000040_001.jpg")
    assert [step_of(name) for name in names] == [-1, -1, 40]
    assert [step_of(name) for name in ("step_²_a.jpg", "step_٢_a.jpg", "step_7x_a.jpg", "a.jpg")] == [-1] * 4


def test_a_resumed_training_draws_again_what_came_after_its_checkpoint(tmp_path):
    begun(tmp_path, PICTURES, 10, 20, 30)
    again = PictureFiles(str(tmp_path), lambda: PICTURES)
    again.start(20)
    assert steps(tmp_path) == files_there(tmp_path) == [10, 20]
    again.validated(ValidationLine(step=20))
    again.validated(ValidationLine(step=30))
    assert steps(tmp_path) == [10, 20, 30] and len(list_pictures(str(tmp_path))) == 6


def test_a_long_training_keeps_the_first_the_last_and_some_between(tmp_path):
    begun(tmp_path, PICTURES, *range(10, 1010, 10))
    kept = steps(tmp_path)
    assert kept == files_there(tmp_path)
    assert kept[0] == 10 and kept[-1] == 1000 and MOST_STEPS / 2 <= len(kept) <= MOST_STEPS
    assert max(b - a for a, b in itertools.pairwise(kept)) <= 300
