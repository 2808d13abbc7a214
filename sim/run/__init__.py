"""Processes that play tapes, and campaigns of them."""
