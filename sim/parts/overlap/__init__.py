"""Two batches in flight: the results of one are processed while the next one runs."""
