"""Every field of train_config is used, reported as idle, or refused."""

from __future__ import annotations

import logging

import pytest
from google.protobuf import text_format

from detection_core.errors import ConfigError
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.tasks.train_options import (
    REFUSED,
    USED,
    USED_BY_INPUT,
    WITHOUT_EFFECT,
    build_train_options,
    fine_tune_type,
)
from detection_core.training.options import TrainOptions


def parse(text: str) -> TrainConfig:
    return text_format.Parse(text, TrainConfig())


def test_no_field_is_passed_over_in_silence() -> None:
    tables = [USED, USED_BY_INPUT, frozenset(WITHOUT_EFFECT), frozenset(REFUSED)]
    assert sorted(name for table in tables for name in table) == sorted(TrainConfig.DESCRIPTOR.fields_by_name)


def test_the_loop_gets_what_the_config_says() -> None:
    config = parse(
        "num_steps: 700 gradient_clipping_by_norm: 10 bias_grad_multiplier: 2 add_regularization_loss: false"
        " freeze_variables: 'a' freeze_variables: 'b' update_trainable_variables: 'c'"
        " summarize_gradients: true keep_checkpoint_every_n_hours: 2.5"
    )
    assert build_train_options(config, log_every=7) == TrainOptions(
        num_steps=700,
        log_every=7,
        checkpoint_every=70,
        keep_checkpoint_every_n_hours=2.5,
        gradient_clipping_by_norm=10.0,
        bias_grad_multiplier=2.0,
        add_regularization_loss=False,
        freeze_variables=("a", "b"),
        update_trainable_variables=("c",),
        summarize_gradients=True,
    )
    assert build_train_options(parse("num_steps: 50000")).checkpoint_every == 1000


def test_one_warning_names_the_fields_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        build_train_options(parse("num_steps: 1 sync_replicas: true unpad_groundtruth_tensors: false"))
    (message,) = caplog.messages
    assert "sync_replicas (replicas always update together)" in message
    assert "unpad_groundtruth_tensors (" in message
    assert "startup_delay_steps" not in message


def test_a_default_config_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    build_train_options(parse("num_steps: 1"))
    assert not caplog.messages


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_followed_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"train_config.{name}"):
        build_train_options(parse(f"num_steps: 1 {name}: true"))


def test_endless_training_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train_config.num_steps.*without end"):
        build_train_options(parse(""))


def test_the_part_to_restore() -> None:
    v2 = "fine_tune_checkpoint_version: V2 "
    assert fine_tune_type(parse(v2 + "fine_tune_checkpoint_type: 'full'")) == "full"
    assert fine_tune_type(parse(v2)) == "classification"
    assert fine_tune_type(parse(v2 + "from_detection_checkpoint: true")) == "detection"
    with pytest.raises(ConfigError, match="expected V2"):
        fine_tune_type(parse("fine_tune_checkpoint: 'x'"))
