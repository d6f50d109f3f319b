#!/usr/bin/env python
"""`manage.py up` runs the whole product; every other command joins what `up` is running, if anything is."""

import os
import sys
from pathlib import Path

from marketplace import embedded
from marketplace.env import BadEnvironment

VAR = Path(os.environ.get("BOURSE_VAR") or Path(__file__).resolve().parent / "var")

FILE_COMMANDS = (["simulate"], ["compare"], ["scenario"])  # they need neither the servers nor their settings
WHERE = "docs/operations.md lists the variables."


def main() -> None:
    offline = sys.argv[1:2] in FILE_COMMANDS
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.offline" if offline else "marketplace.settings")
    if sys.argv[1:2] == ["up"]:
        os.environ.setdefault("DEBUG", "true")
        embedded.announce(embedded.state_for(VAR))
    elif not offline:
        embedded.join_running(VAR)

    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except BadEnvironment as problem:
        sys.exit(f"{problem}\nNothing is running here to take it from: `make run` starts everything. {WHERE}")


if __name__ == "__main__":
    main()
