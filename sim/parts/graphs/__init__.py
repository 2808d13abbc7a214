"""Captured graphs: their events, how they are played, and tapes with them. The check is the engine level's."""
