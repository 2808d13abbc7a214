"""Reads a target's sources: mutation sites and cached translations."""
