"""The entry of every command of the server: `manage.py` in a checkout, `bourse-server` where it is installed as a
package."""

import os
import sys

from marketplace import embedded
from marketplace.env import settings_load
from marketplace.places import var_folder
from marketplace.version import VERSION

# These commands need neither the servers nor their settings.
FILE_COMMANDS = (["simulate"], ["compare"], ["scenario"], ["lab"], ["train_dl2"], ["reproduce"])


def main() -> None:
    if sys.argv[1:] in (["version"], ["--version"]):
        print(VERSION)  # Django would print its own version
        return
    offline = sys.argv[1:2] in FILE_COMMANDS
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.offline" if offline else "marketplace.settings")
    if sys.argv[1:2] == ["up"]:
        os.environ.setdefault("DEBUG", "true")
        embedded.announce(embedded.state_for(var_folder()))
    elif not offline:
        embedded.join_running(var_folder())

    from django.core.management import execute_from_command_line

    settings_load()  # Django would swallow the error of a bad variable, and fail at its consequences later
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        if (sentence := _without_database(error)) is None or "--traceback" in sys.argv:
            raise
        sys.exit(sentence)


def _without_database(error: Exception) -> str | None:
    """Return a sentence for an error that says that the database does not answer; None for any other."""
    from tenants.failures import DATABASE, unavailable_of

    if unavailable_of(error) is not DATABASE:
        return None
    reason = " ".join(str(error).split()).rstrip(".")
    return f"The database does not answer: {reason}. Look at PostgreSQL and DATABASE_URL."
