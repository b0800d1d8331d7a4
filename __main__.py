"""`python -m foreplan`, and the command `foreplan`: it is here so that Ctrl-C is a sentence from the first moment on."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """The command line; imported here, because that takes long enough to be interrupted."""
    try:
        from .console.app import main as command

        return command()
    except KeyboardInterrupt:
        sys.stderr.write("foreplan: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
