"""The audit's verdicts, pages and files."""
