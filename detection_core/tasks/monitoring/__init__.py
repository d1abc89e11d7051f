"""Parts of the comparison of served detections with evaluated ones."""
