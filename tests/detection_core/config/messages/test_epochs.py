from detection_core.config.check import check_message
from detection_core.config.messages.epochs import STEPS_OF, fields_in_epochs, in_steps
from detection_core.config.messages.training import endless_training_problems
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed
from tests.support.schema_messages import MESSAGES

COSINE = "cosine_decay_learning_rate { total_epochs: 10 warmup_epochs: 0.5 hold_base_rate_epochs: 1 }"
MANUAL = """manual_step_learning_rate {
  schedule { epoch: 2.5 learning_rate: 0.1 } schedule { epoch: 7 learning_rate: 0.01 } }"""
EXPONENTIAL = "exponential_decay_learning_rate { decay_epochs: 2 burnin_epochs: 1 }"


def _config(train, rate=COSINE):
    text = f"train_config {{ {train} optimizer {{ adam_optimizer {{ learning_rate {{ {rate} }} }} }} }}"
    return parsed(TrainEvalPipelineConfig, text)


def _rate(config):
    rate = config.train_config.optimizer.adam_optimizer.learning_rate
    return getattr(rate, rate.WhichOneof("learning_rate"))


def test_every_field_in_epochs_has_one_in_steps():
    for name, fields in STEPS_OF.items():
        own = MESSAGES[name].fields_by_name
        for epochs, steps in fields.items():
            assert (own[epochs].number >= 1000 and own[steps].number < 1000) or steps == "close_mosaic_steps"
            assert own[epochs].type == own[epochs].TYPE_FLOAT and own[steps].type == own[steps].TYPE_UINT32
        assert {n for n in own if "epoch" in n} == set(fields)


def test_lengths_become_whole_updates():
    config = in_steps(_config("num_epochs: 10 close_mosaic_epochs: 1.5"), 18.75)
    assert config.train_config.num_steps == 188 and config.train_config.close_mosaic_steps == 28
    rate = _rate(config)
    assert (rate.total_steps, rate.warmup_steps, rate.hold_base_rate_steps) == (188, 9, 19)
    assert not fields_in_epochs(config.train_config)
    assert [e.step for e in _rate(in_steps(_config("", MANUAL), 100.0)).schedule] == [250, 700]
    rate = _rate(in_steps(_config("", EXPONENTIAL), 100.0))
    assert (rate.decay_steps, rate.burnin_steps) == (200, 100)
    # A length is at least one update, and none stays none.
    short = "cosine_decay_learning_rate { warmup_epochs: 0 total_epochs: 0.01 }"
    rate = _rate(in_steps(_config("", short), 1))
    assert (rate.warmup_steps, rate.total_steps) == (0, 1)
    config = _config("num_steps: 7", "cosine_decay_learning_rate { total_steps: 7 }")
    assert in_steps(config, 3.0) == config
    config_refused(r"num_epochs.*train for fewer epochs", in_steps, _config("num_epochs: 1000000"), 1e6)


@cases(
    ("num_steps: 5 num_epochs: 2", COSINE, "num_epochs"),
    ("num_epochs: -1", COSINE, "num_epochs"),
    ("close_mosaic_steps: 5 close_mosaic_epochs: 2", COSINE, "close_mosaic_epochs"),
    ("", "cosine_decay_learning_rate { total_steps: 9 total_epochs: 2 }", "total_epochs"),
    ("", "cosine_decay_learning_rate { total_epochs: 2 warmup_epochs: 3 }", "warmup_epochs"),
    ("", "exponential_decay_learning_rate { decay_steps: 9 decay_epochs: 2 }", "decay_epochs"),
    ("", "manual_step_learning_rate { schedule { step: 4 epoch: 2 } }", "schedule[0].epoch"),
    ("", "manual_step_learning_rate { schedule { step: 4 } schedule { epoch: 8 } }", "schedule"),
    ("", "manual_step_learning_rate { schedule { epoch: 4 } schedule { epoch: 3 } }", "schedule[1].epoch"),
)
def test_contradictions_are_named(*, train, rate, field):
    caught = config_refused("", check_message, _config(train, rate).train_config, "train_config")
    assert f"{field}:" in str(caught)


def test_lengths_in_epochs_are_accepted():
    for rate in (COSINE, MANUAL, EXPONENTIAL):
        config = _config("num_epochs: 0.5", rate)
        check_message(config.train_config, "train_config")
        assert not list(endless_training_problems(config.train_config))
