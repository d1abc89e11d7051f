"""Converts images and annotations to sharded tf.Example records."""
