"""Speculative decode on a decode node: what two parts need to combine."""
