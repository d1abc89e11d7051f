"""Selection of the anchors that count in a loss."""
