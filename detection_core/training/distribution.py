"""Distribution of training over devices and machines, and its reproducibility."""

import dataclasses
import json
import logging
import os
import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Worker:
    """The rank of this process among a training's workers; 0 is the chief, which alone writes results."""

    index: int = 0
    count: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the results."""
        return self.index == 0


def this_worker() -> Worker:
    """Read this process's rank from TF_CONFIG, as a training operator sets it; ConfigError if invalid."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return Worker()
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        chiefs, workers = len(cluster.get("chief", [])), len(cluster.get("worker", []))
        index = int(task["index"]) + (chiefs if task["type"] == "worker" else 0)
        if task["type"] not in ("chief", "worker") or not index < chiefs + workers:
            raise ValueError(f"task {task} is not of the cluster")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            'expected {"cluster": {"worker": [addresses]}, "task": {"type": "worker", "index": number}},'
            f" found {text!r} ({error}). Unset it to train on this machine alone.",
            where="TF_CONFIG",
        ) from error
    return Worker(index=index, count=chiefs + workers)


def choose_strategy(worker: Worker | None = None) -> tf.distribute.Strategy:
    """Return the strategy to build model and optimizer in; None: this process trains alone.

    Several workers: MultiWorkerMirroredStrategy, which must be created before any other TensorFlow op runs.
    Several GPUs: MirroredStrategy. Otherwise TensorFlow's default.
    """
    if worker is not None and worker.count > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def current_worker() -> Worker:
    """Return the rank of this process in the current strategy's scope."""
    alone = tf.distribute.get_strategy().cluster_resolver is None
    return Worker() if alone else this_worker()


def distributed(
    make_dataset: Callable[[int], tf.data.Dataset], start: int
) -> tf.distribute.DistributedDataset:
    """Distribute a dataset, made from the first step, over the replicas.

    On one machine it yields global batches, on several this worker's share, in batches for one replica.
    """
    strategy = tf.distribute.get_strategy()
    if current_worker().count > 1:
        return strategy.distribute_datasets_from_function(lambda context: make_dataset(start))
    return strategy.experimental_distribute_dataset(make_dataset(start))


@tf.function
def _sum_over_replicas(value: tf.Tensor) -> tf.Tensor:
    strategy = tf.distribute.get_strategy()
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: value), axis=None)


def on_any_worker(flag: bool) -> bool:
    """Return whether any worker's flag is set; all workers must call it at the same step."""
    return bool(_sum_over_replicas(tf.constant(float(flag))) > 0)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
def _gather_from_replicas(data: tf.Tensor) -> tf.Tensor:
    strategy = tf.distribute.get_strategy()
    gather = lambda: tf.distribute.get_replica_context().all_gather(tf.identity(data), axis=0)  # noqa: E731
    return strategy.experimental_local_results(strategy.run(gather))[0]


def gather_from_workers(value: Any) -> list[Any]:
    """Return the value of each worker, in the order of their ranks; all workers must call it."""
    count = current_worker().count
    if count == 1:
        return [value]
    data = pickle.dumps(value)
    words = np.frombuffer(data + bytes(-len(data) % 8), np.int64)  # there are no collectives of bytes
    sizes = _gather_from_replicas([len(data)]).numpy()
    parts = np.split(_gather_from_replicas(words).numpy(), np.cumsum(-(-sizes // 8))[:-1])
    found = [pickle.loads(part.tobytes()[:size]) for part, size in zip(parts, sizes, strict=True)]
    return found[:: len(found) // count]  # one replica of each worker


def end_for_restart(reason: str) -> NoReturn:
    """End this worker, and so the others: a running training takes no worker up again."""
    _logger.warning("%s; this worker ends. Start all workers again to resume the training", reason)
    raise SystemExit(os.EX_TEMPFAIL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproducibility:
    """Which parts of a training repeat for the same config.

    Attributes:
        seed: of the order of the examples and of their augmentation.
        seeds_weights: whether it also seeds the initial weights and all other random draws.
        deterministic: whether operations add in the same order each time, so that results are bit-identical.
    """

    seed: int = 0
    seeds_weights: bool = False
    deterministic: bool = False

    def set_up(self) -> None:
        """Seed and configure this process permanently; call it before the model is built."""
        if self.seeds_weights:
            tf_keras.utils.set_random_seed(self.seed)
        if self.deterministic:
            tf.config.experimental.enable_op_determinism()
