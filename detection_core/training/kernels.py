"""Which of TensorFlow's kernels for processors a training uses."""

import functools
import os
from typing import Any

_SWITCH = "TF_ENABLE_ONEDNN_OPTS"


def use_onednn() -> None:
    """Let a process that trains use oneDNN's kernels on every x86 processor.

    TensorFlow's default leaves them off without VNNI or AMX. There, too, they make a training step 1.3 times
    faster, but a prediction up to 1.7 times slower (docs/measured.md), so other processes keep the default.

    Call it before TensorFlow is imported; later it has no effect. Nothing changes where the variable is set.
    """
    if os.uname().machine == "x86_64":
        os.environ.setdefault(_SWITCH, "1")


def avoid_slow_fusions(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Keep TensorFlow from fusing operations for oneDNN on a processor without AVX-512.

    oneDNN 3 has no fast kernel there for a convolution fused with a batch norm: a prediction of one image
    took 33 times as long. Call it before a network predicts in a process that may train.
    """
    if os.environ.get(_SWITCH) != "1" or "avx512f" in processor_flags(cpuinfo):
        return
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"remapping": False})


def processor_flags(cpuinfo: str) -> set[str]:
    """Return the features of the first processor, as Linux names them; none where it does not tell."""
    try:
        with open(cpuinfo, encoding="utf-8") as f:
            return set(next((line.partition(":")[2] for line in f if line.startswith("flags")), "").split())
    except OSError:
        return set()


@functools.cache
def sum_bias_gradients_in_float32() -> None:
    """Replace TensorFlow's gradient of a bias, which processors sum in the 16 bits of its numbers.

    A sum of bfloat16 then stops growing: 800 ones give 256. GPUs sum in float32.
    """
    import tensorflow as tf
    from tensorflow.python.framework.ops import gradient_registry

    def gradient(operation: Any, received: Any) -> tuple[Any, Any]:
        if received.dtype == tf.float32:
            return plain(operation, received)
        axes = list(range(received.shape.rank - 1))  # channels come last in all networks here
        return received, tf.cast(tf.reduce_sum(tf.cast(received, tf.float32), axes), received.dtype)

    entry = gradient_registry._registry["BiasAdd"]
    plain, entry["type"] = entry["type"], gradient
