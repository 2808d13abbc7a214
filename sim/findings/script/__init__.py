"""Stand-alone repro scripts."""
