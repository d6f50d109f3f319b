#!/usr/bin/env python
"""`manage.py up` runs the whole product; every other command joins what `up` is running, if anything is."""

from marketplace.commands import main

if __name__ == "__main__":
    main()
