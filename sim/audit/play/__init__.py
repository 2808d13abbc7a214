"""Plays tapes on instrumented and mutated targets."""
