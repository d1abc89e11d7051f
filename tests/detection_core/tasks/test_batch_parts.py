"""In how many parts a training begins and goes on; trainings themselves are in `test_left_alone`."""

import dataclasses

import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import BATCH_PARTS, BatchParts
from detection_core.errors import ConfigError
from detection_core.tasks.batch_parts import fitting_parts, settled_parts
from detection_core.training.distribution import Worker
from detection_core.training.loop_options import TrainOptions
from detection_core.training.trial_updates import BatchTooLargeError, TrialUpdates
from tests.support.tiny_model import TinyModel, make_dataset

OPTIONS = TrainOptions(num_steps=1, gradient_accumulation_steps=0, batch_size=8)


def test_what_was_found_is_kept_as_far_as_it_divides_the_batch(tmp_path):
    assert settled_parts(OPTIONS, str(tmp_path), Worker()) == 1
    BATCH_PARTS.write(str(tmp_path), BatchParts(gradient_accumulation_steps=3))
    assert settled_parts(OPTIONS, str(tmp_path), Worker()) == 4
    asked = dataclasses.replace(OPTIONS, gradient_accumulation_steps=2)
    assert settled_parts(asked, str(tmp_path), Worker()) == 2
    # Two replicas have half of the eight images each.
    BATCH_PARTS.write(str(tmp_path), BatchParts(gradient_accumulation_steps=5))
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        assert settled_parts(OPTIONS, str(tmp_path), Worker()) == 4
    with pytest.raises(ConfigError, match="2 workers cannot find a number together"):
        settled_parts(OPTIONS, str(tmp_path), Worker(index=0, count=2))


def test_where_not_even_one_image_fits_it_is_said(tmp_path):
    class Nothing(TrialUpdates):
        """The memory holds no update: `least_parts` says 0 then."""

        def least_parts(self, above: int) -> int:
            return 0

    trial = Nothing(
        model=TinyModel(), make_dataset=make_dataset, optimization=lambda: None, options=OPTIONS,
        step=None, reset=lambda: None,
    )  # fmt: skip
    error = BatchTooLargeError("too large", where="here")
    for asked in (0, 1):
        with pytest.raises(BatchTooLargeError, match=r"here: too large\. Nor does it hold one image at a t"):
            fitting_parts(error, trial, 1, asked, str(tmp_path))
    assert not list(tmp_path.iterdir())
