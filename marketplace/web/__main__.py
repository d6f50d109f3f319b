"""`python -m marketplace.web HOST PORT`: one web process."""

import sys

from marketplace.web.process import main

if __name__ == "__main__":
    main(*sys.argv[1:])
