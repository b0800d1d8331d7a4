"""A model plans first, as data; code checks it, people review it, and only then does it run."""
