"""CenterNet, https://arxiv.org/abs/1904.07850: objects as peaks of a heatmap, with keypoints."""
