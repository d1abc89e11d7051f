"""Programs for two replicas, in a child process."""

import subprocess
import sys
import textwrap

_START = """
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


def assert_prints_equal(program: str, *arguments: object) -> None:
    """Run a program that prints "equal" where two logical devices exist: they precede TensorFlow's start."""
    command = [sys.executable, "-c", _START + textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip().endswith("equal"), done.stderr[-3000:]
