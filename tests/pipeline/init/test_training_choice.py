import dataclasses
import itertools

import pytest

from detection_core.config.check import check_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from pipeline.init.hardware import Hardware
from pipeline.init.ladder import find_network, list_networks
from pipeline.init.network_choice import fit_network
from pipeline.init.training_choice import (
    choose_batch,
    choose_training,
    choose_validation,
    num_steps,
    peak_rate,
)
from tests.pipeline.init.looked_at import GIB, LAPTOP, seen

DATA = seen()
SMALL = fit_network(list_networks()[0], "", DATA, LAPTOP)
PUBLISHED = fit_network(find_network("ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"), "", DATA, LAPTOP)


def test_the_batch_follows_the_amount_of_data_and_fits_in_memory():
    batches = {3: 3, 200: 8, 2_000: 16, 50_000: 32}
    assert {images: choose_batch(images, SMALL, LAPTOP).value for images in batches} == batches
    network = dataclasses.replace(SMALL.network, training_bytes=GIB // (192 * 256))
    heavy = dataclasses.replace(SMALL, network=network)
    machines = [Hardware(processors=2, memory=memory * GIB) for memory in (1, 8, 16, 200)]
    batches = [choose_batch(50_000, heavy, machine) for machine in machines]
    assert [choice.value for choice in batches] == [1, 2, 8, 32]
    assert "32 images would take more" in batches[1].reason
    assert choose_batch(50_000, heavy, Hardware(processors=2, memory=0)).value == 32


def test_a_training_for_any_amount_of_data_is_valid():
    amounts = (10, 700, 5_000, 200_000)
    for chosen, images, weights in itertools.product((SMALL, PUBLISHED), amounts, (True, False)):
        batch = choose_batch(images, chosen, LAPTOP)
        choices = choose_training(DATA, images, chosen, batch, weights=weights)
        paths = [choice.path for choice in choices]
        assert len(set(paths)) == len(paths)
        fields = {c.path: c.value for c in choices if not c.path.startswith("train.")}
        config = apply_overrides(chosen.config, fields)
        check_pipeline_config(config)
        train = config.train_config
        cosine = train.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate
        assert cosine.total_steps == train.num_steps == num_steps(choices) > cosine.warmup_steps
        assert cosine.learning_rate_base == pytest.approx(peak_rate(choices))
        assert (train.batch_size, train.max_number_of_boxes) == (batch.value, 20)
        assert ("train.start_from" in paths) == (weights and chosen is PUBLISHED)


def test_more_data_are_seen_fewer_times():
    def epochs(images):
        batch = choose_batch(images, SMALL, LAPTOP)
        steps = num_steps(choose_training(DATA, images, SMALL, batch, weights=False))
        return steps * batch.value / images

    assert epochs(300) > epochs(3_000) > epochs(30_000) > epochs(3_000_000)


def test_full_pictures_keep_all_of_their_objects_but_one_does_not_fill_the_memory_of_all():
    batch = choose_batch(300, SMALL, LAPTOP)
    for most, kept in ((233, 240), (300_000, 1_000)):
        choices = choose_training(seen(most=most), 300, SMALL, batch, weights=False)
        assert next(c.value for c in choices if c.path == "train_config.max_number_of_boxes") == kept


def test_the_best_weights_are_written_and_training_may_stop_early_but_not_by_a_few_images():
    def validated(choice):
        return apply_overrides(SMALL.config, {choice.path: choice.value}).train_config.validation

    for steps in (1_000, 150_000):
        validation = validated(choose_validation(steps, 40))
        assert validation.weights == validation.BEST and validation.max_images == 0
        assert 0 < validation.patience * validation.every_steps < steps / 2
        assert choose_validation(steps, 5_000).value["max_images"] == 500
    for images in (0, 3):
        choice = choose_validation(1_500, images)
        validation = validated(choice)
        assert validation.weights == validation.LAST and not validation.patience and validation.every_steps
        assert f"{images} images" in choice.reason
