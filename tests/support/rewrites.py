"""Whether TensorFlow's graph optimizers are on."""

import tensorflow as tf


def rewrites() -> bool:
    """Return whether a function that is called now is rewritten."""
    return not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)
