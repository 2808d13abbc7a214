"""The release matrix: which release shows which incident, by its tape and by blind fuzzing."""
