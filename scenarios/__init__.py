"""Tapes of reported incidents. ``staleloc replay NAME --target T`` plays one from anywhere.

The provenance of each names the incident, its source and mechanism, the class of its divergence, the
releases on which it diverges and those on which it is silent; a test plays it on all of them.
"""
