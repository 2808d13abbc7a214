"""The audit of a target's source: what changes the mapping, what remembers a translation, and what it takes to tell."""
