#!/usr/bin/env python
"""`manage.py up` runs the whole product; every other command joins what `up` is running, if anything is."""

import os
import sys
from pathlib import Path

from marketplace import embedded
from marketplace.env import BadEnvironment

VAR = Path(os.environ.get("BOURSE_VAR") or Path(__file__).resolve().parent / "var")

# They need neither the servers nor their settings.
FILE_COMMANDS = (["simulate"], ["compare"], ["scenario"], ["train_dl2"], ["reproduce"])
WHERE = "docs/operations.md lists the variables. Without any, `make run` runs everything, and commands join it."


def main() -> None:
    offline = sys.argv[1:2] in FILE_COMMANDS
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.offline" if offline else "marketplace.settings")
    if sys.argv[1:2] == ["up"]:
        os.environ.setdefault("DEBUG", "true")
        embedded.announce(embedded.state_for(VAR))
    elif not offline:
        embedded.join_running(VAR)

    from django.conf import settings
    from django.core.management import execute_from_command_line

    try:
        # Django would swallow the error of a bad variable here and stumble over its consequences later.
        _ = settings.INSTALLED_APPS
    except BadEnvironment as problem:
        sys.exit(f"{problem}\n{WHERE}")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
