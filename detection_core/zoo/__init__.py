"""Published weights: list and fetch them, and choose settings for fine-tuning.

Nothing here imports TensorFlow.
"""
