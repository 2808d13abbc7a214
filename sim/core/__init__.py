"""What every room uses: events, tapes, divergences, choices, verdicts."""
