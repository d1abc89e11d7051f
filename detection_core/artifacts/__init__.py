"""One module per kind of artifact: its file names, content, reader and writer."""
