"""Published weights to start from: which there are, how they are fetched, and how to train on from them.

Nothing here imports TensorFlow.
"""
