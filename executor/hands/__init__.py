"""The hands: the one place where a tool is called, with the limits, secrets and hooks around it."""
