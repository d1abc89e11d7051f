"""TensorFlow Lite files with a parity gate."""
