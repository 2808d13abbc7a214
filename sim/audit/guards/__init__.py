"""Guards of mutation sites, and the source changes that remove them."""
