"""Which known bugs look like a symptom of production."""
