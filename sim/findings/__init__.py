"""Findings: how they are made, explained, printed and written to files."""
