"""The journal: what happened, written down before anything follows from it, and what that proves afterwards."""
