"""Images and annotations to sharded tf.Example records."""
