"""EfficientDet, https://arxiv.org/abs/1911.09070, as google/automl published it."""
