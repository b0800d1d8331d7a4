"""The mind without hands: `advance(state, event) -> commands`, and every rule that it goes by. Pure: no I/O, no clock."""
