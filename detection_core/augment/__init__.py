"""Training-time augmentation of one sample."""
