"""SavedModel and TensorFlow Lite files."""
