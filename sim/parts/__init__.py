"""What may happen in a tape and what must be true then: one folder for each way of driving a target."""
