"""Parts of a selection: what images are worth, how far they are apart, and which are chosen."""
