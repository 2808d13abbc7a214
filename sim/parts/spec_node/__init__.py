"""Speculative decode on a decode node, the pair of parts."""
