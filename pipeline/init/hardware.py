"""Hardware that training can use, and the size and speed of a network on it."""

import dataclasses
import os
import statistics
import time

from detection_core.config.check import check_pipeline_config
from detection_core.config.model_fields import with_classes
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.training.memory import allowed_memory
from pipeline.doctor.machine import GIB, gpu_memory, this_machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """Hardware that training can use.

    Attributes:
        processors: available to this process.
        memory: bytes, of the GPU if there is one; 0 if unknown.
        gpu: its name, "" for none.
    """

    processors: int
    memory: int
    gpu: str = ""

    @property
    def text(self) -> str:
        """Return a description for users."""
        where = self.gpu or f"{self.processors} processors without a GPU"
        return f"{where}, {self.memory / GIB:.0f} GiB" if self.memory else where


def look_at_hardware() -> Hardware:
    """Detect this machine's hardware."""
    gpu, memory = gpu_memory(this_machine())
    return Hardware(
        processors=len(os.sched_getaffinity(0)), memory=memory if gpu else allowed_memory(), gpu=gpu
    )


_RUNS, _LONGEST_SECONDS = 9, 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """A network's size and speed on this machine.

    Attributes:
        parameters: numbers in all variables.
        multiply_adds: of its layers, for one image.
        milliseconds: median time per image in TensorFlow, including non-maximum suppression.
    """

    parameters: int
    multiply_adds: int
    milliseconds: float


def measure(config: PipelineConfig, *, classes: int) -> Measured:
    """Build the network of a config with one image size, and time it.

    `classes` is used if the config has no number of classes.

    Raises:
        ConfigError: when the config is invalid.
    """
    import numpy as np
    import tensorflow as tf

    from detection_core.builders.detector import configured_model
    from detection_core.structures import Images
    from detection_core.tasks.describe import describe

    checked = check_pipeline_config(with_classes(config, classes))
    described = describe(checked)
    detector = configured_model(checked).build(seed=None)
    rows, columns = detector.input_shape.smallest
    pixels = tf.constant(np.random.default_rng(0).uniform(0, 255, (1, rows, columns, 3)), tf.float32)
    sizes = tf.constant([[rows, columns]])
    images = Images(pixels=pixels, true_sizes=sizes, original_sizes=sizes, source_ids=tf.constant(["noise"]))
    detect = tf.function(detector.detect)
    detect(images)  # traces the function
    times: list[float] = []
    while len(times) < _RUNS and (not times or sum(times) < _LONGEST_SECONDS):
        began = time.perf_counter()
        detect(images).count.numpy()
        times.append(time.perf_counter() - began)
    return Measured(
        parameters=described.parameters,
        multiply_adds=described.flops // 2,
        milliseconds=statistics.median(times) * 1000,
    )
