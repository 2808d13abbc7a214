"""Disaggregated decode: its events, how they are played, its tapes and its checks."""
