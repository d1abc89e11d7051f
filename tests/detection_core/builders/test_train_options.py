import functools

import pytest

from detection_core.builders.train_options import build_train_options
from detection_core.errors import ConfigError
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.loop_options import TrainOptions
from tests.support.cases import refused
from tests.support.configs import parsed

parse = functools.partial(parsed, TrainConfig)


def test_the_loop_gets_what_the_config_says():
    config = parse(
        "num_steps: 700 gradient_clipping_by_norm: 10 bias_grad_multiplier: 2 add_regularization_loss: false"
        " freeze_variables: 'a' freeze_variables: 'b' update_trainable_variables: 'c'"
        " summarize_gradients: true batch_size: 32 keep_checkpoint_every_n_hours: 2.5"
    )
    assert build_train_options(config, log_every=7) == TrainOptions(
        num_steps=700, log_every=7, checkpoint_every=70, keep_checkpoint_every_n_hours=2.5, batch_size=32,
        gradient_clipping_by_norm=10.0, bias_grad_multiplier=2.0, add_regularization_loss=False,
        freeze_variables=("a", "b"), update_trainable_variables=("c",), summarize_gradients=True,
    )  # fmt: skip
    assert build_train_options(parse("num_steps: 50000")).checkpoint_every == 1000
    refused(ConfigError, r"train_config.num_steps.*without end", build_train_options, parse(""))
    assert build_train_options(parse("num_steps: 9")).checkpoint_minutes == 5.0
    assert build_train_options(parse("num_steps: 9"), checkpoint_minutes=0.5).checkpoint_minutes == 0.5
    with pytest.raises(ConfigError, match=r"checkpoint_minutes: expected 0, .*or more, found -1"):
        build_train_options(parse("num_steps: 9"), checkpoint_minutes=-1.0)
