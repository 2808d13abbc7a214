"""A scheduler that admits by its own budgets: prefill rounds with chunks, decode rounds with retraction."""
