"""The checks of this part, one file each."""
