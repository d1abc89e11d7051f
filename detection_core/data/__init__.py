"""tf.Example records, images and label maps."""
