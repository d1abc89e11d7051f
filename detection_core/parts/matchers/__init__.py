"""Assignment of ground truth to anchors."""
