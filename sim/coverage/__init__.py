"""Line coverage: which lines of a target's own code tapes run, which they never run, and why."""
