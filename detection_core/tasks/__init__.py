"""The verbs: train, evaluate, quantize, export."""
