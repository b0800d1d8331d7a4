"""`python -m foreplan` is the command `foreplan`."""

from __future__ import annotations

import sys

from .console.app import main

if __name__ == "__main__":
    sys.exit(main())
