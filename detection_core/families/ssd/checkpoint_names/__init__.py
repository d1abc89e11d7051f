"""Names of our networks' variables in the Object Detection API's object-based checkpoints."""
