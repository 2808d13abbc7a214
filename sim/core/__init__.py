"""The common vocabulary: events, tapes, divergences, choices, verdicts."""
