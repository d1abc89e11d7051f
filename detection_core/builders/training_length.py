"""Convert a config's lengths in epochs to steps."""

from __future__ import annotations

from detection_core.builders.datasets import count_train_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.messages.epochs import fields_in_epochs, in_steps
from detection_core.config.pipeline_config import CheckedConfig


def with_steps(config: CheckedConfig) -> CheckedConfig:
    """Return a config with every length in steps.

    An epoch is one pass over the training examples, batch_size of them per update.

    The input readers must be filled in. A config without epochs is returned unchanged.

    Raises:
        ConfigError: when the reader is invalid, or a length has more updates than its field can hold.
        DataError: when there are no records, or a file is damaged.
    """
    if not fields_in_epochs(config.train_config):
        return config
    label_map = load_label_map(config.train_input_reader.label_map_path)
    examples = count_train_examples(config, label_map=label_map)
    return in_steps(config, examples / config.train_config.batch_size)
