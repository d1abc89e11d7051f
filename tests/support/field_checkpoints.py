"""Writes checkpoints as other software does: object-based with the keys of the field, and name-based."""

import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.restore import restore_fine_tune_checkpoint


def restored(model: Any, names: Any, path: str, **options: Any) -> Any:
    """Start a model from a checkpoint, with the options of `FineTuneOptions`; return the report."""
    return restore_fine_tune_checkpoint(model, names, FineTuneOptions(**options), CheckpointFile(path))


class AveragingOptimizer(tf_keras.optimizers.legacy.Optimizer):
    """Keeps moving averages where TensorFlow Addons' MovingAverage does, in slots called `average`.

    google/automl trains with it; the keys that its checkpoints have are a fact of the goldens' training_step.
    """

    def __init__(self) -> None:
        super().__init__("AveragingOptimizer")

    def get_config(self) -> dict[str, Any]:
        return super().get_config()


def write_object_checkpoint(
    values: Mapping[str, np.ndarray], prefix: pathlib.Path, averages: Mapping[str, np.ndarray] | None = None
) -> str:
    """Write variables under object paths such as `model/_box_predictor/0/kernel`; returns the prefix.

    `.S` in a path is a slash in an object's own name, as in TensorFlow's keys. An optimizer of the root keeps
    the moving averages of some.
    """
    variables = {path: tf.Variable(value) for path, value in values.items()}
    root = _node(variables)
    if averages:
        root.optimizer = AveragingOptimizer()
        for path, value in averages.items():
            root.optimizer.add_slot(variables[path], "average", initializer=tf.constant(value))
    return str(root.write(str(prefix)))


def _node(variables: Mapping[str, tf.Variable]) -> tf.train.Checkpoint:
    fields: dict[str, tf.Variable | tf.train.Checkpoint] = {}
    below: dict[str, dict[str, tf.Variable]] = {}
    for path, variable in variables.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = variable
        else:
            fields[first.replace(".S", "/")] = variable
    fields.update({name.replace(".S", "/"): _node(rest) for name, rest in below.items()})
    return tf.train.Checkpoint(**fields)


def named_weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The value of a name-based checkpoint's variable, which follows from its name."""
    return np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)


def write_named_checkpoint(
    values: Mapping[str, np.ndarray], prefix: pathlib.Path, *, single_file: bool = False
) -> str:
    """Write variables as TensorFlow 1's saver does, `single_file` in its first format; returns the prefix."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    if not single_file:
        names, tensors = list(values), [tf.constant(value) for value in values.values()]
        tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
        )
        tf.compat.v1.train.update_checkpoint_state(str(prefix.parent), str(prefix))
        return str(prefix)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(write_version=tf.compat.v1.train.SaverDef.V1)
        return str(saver.save(session, str(prefix), write_meta_graph=False))
