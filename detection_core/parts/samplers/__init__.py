"""Which anchors count in a loss."""
