"""Batches at the command line: `batch`, `retry`, and what the other commands show of a batch."""
