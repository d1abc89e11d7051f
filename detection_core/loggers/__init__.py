"""Where the numbers and pictures of a training go beside its own files."""
