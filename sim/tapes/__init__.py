"""Tapes as files: codec, schema, repair, shrinking, packaged scenarios."""
