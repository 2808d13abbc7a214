"""The gate of a CI: what a change of a target breaks, told apart from what its base shows as well."""
