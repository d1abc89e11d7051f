import itertools

import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.zoo.fine_tuning import fine_tuning_recipe
from detection_core.zoo.networks import network_text
from detection_core.zoo.published_models import find_model, list_models
from tests.support.cases import cases

LITE = find_model("ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8")


def _config(recipe, classes=3):
    return apply_overrides(parse_pipeline_config(network_text(recipe.model, classes)), recipe.overrides())


@cases(*itertools.product(list_models(), [(100, 4), (2_000, 8), (50_000, 32)]))
def test_a_recipe_makes_a_config_that_training_takes(*, model, size):
    images, batch_size = size
    recipe = fine_tuning_recipe(model, images=images, classes=3, batch_size=batch_size)
    config = _config(recipe)
    check_pipeline_config(config)
    assert config.train_config.batch_size == batch_size
    assert config.train_config.optimizer.use_moving_average and config.eval_config.use_moving_averages
    for choice in recipe.choices:
        assert choice.reason and not choice.reason.endswith(".") and choice.source, choice


def _lite(images, batch_size=8, **options):
    return fine_tuning_recipe(LITE, images=images, classes=1, batch_size=batch_size, **options)


def test_it_starts_from_the_zoo_and_more_images_need_less_augmentation():
    recipe = _lite(9)
    assert recipe.settings() == {"train.start_from": f"zoo:{LITE.name}"}
    assert not recipe.settings().keys() & recipe.overrides().keys()
    assert _lite(100, num_steps=250).overrides()["train_config.num_steps"] == 250
    recipes = [_lite(images) for images in (100, 2_000, 20_000)]
    steps = [recipe.overrides()["train_config.num_steps"] for recipe in recipes]
    assert steps == sorted(steps) and steps[0] * 8 / 100 > steps[-1] * 8 / 20_000
    counts = [len(recipe.overrides()["train_config.data_augmentation_options"]) for recipe in recipes]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


def test_the_rate_is_lower_than_from_scratch_follows_the_batch_and_warms_up():
    peaks = {}
    for batch in (4, 8, 16, 1024):
        recipe = _lite(500, batch)
        optimizer = _config(recipe).train_config.optimizer.momentum_optimizer
        cosine = optimizer.learning_rate.cosine_decay_learning_rate
        peaks[batch] = cosine.learning_rate_base
        assert cosine.warmup_learning_rate < cosine.learning_rate_base
        assert 0 < cosine.warmup_steps <= cosine.total_steps / 10
        assert cosine.total_steps == recipe.overrides()["train_config.num_steps"]
    assert peaks[8] == pytest.approx(2 * peaks[4]) and peaks[16] == pytest.approx(2 * peaks[8]) == peaks[1024]
    assert max(peaks.values()) <= 0.04, "published: 0.08 at 128 images"


def test_small_batches_keep_published_statistics_and_numbers_below_one_are_refused():
    small, short, long = (_lite(*size).overrides() for size in ((100, 4), (100, 8), (100_000, 8)))
    assert small["model.ssd.freeze_batchnorm"] is True and "model.ssd.freeze_batchnorm" not in short
    # The statistics of short trainings follow quickly.
    assert sum(path.endswith("batch_norm.decay") for path in short) == 2
    assert not any("batch_norm" in path for path in long)
    for wrong in ({"images": 0}, {"classes": 0}, {"batch_size": 0}, {"num_steps": -1}):
        with pytest.raises(ValueError, match="positive"):
            fine_tuning_recipe(LITE, **{"images": 1, "classes": 1, "batch_size": 1, **wrong})
