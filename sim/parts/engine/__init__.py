"""The engine level: whole requests, a prefix tree and a host tier instead of single allocator calls."""
