"""Let `python -m bourse_client` run `bourse`."""

import sys

from bourse_client.command.main import run

if __name__ == "__main__":
    sys.exit(run())
