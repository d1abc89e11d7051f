"""Makes the files of a first workflow by looking at a data set."""
