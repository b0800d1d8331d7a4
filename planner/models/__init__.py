"""The models behind a planner: messages in, a message out."""
