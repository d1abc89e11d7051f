"""Parts of the prediction: what it reads, and what it writes."""
