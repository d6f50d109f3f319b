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
        if (sentence := _of_database(error)) is None or "--traceback" in sys.argv:
            raise
        sys.exit(sentence)


def _of_database(error: Exception) -> str | None:
    """Return a sentence for an error of which the cause is how the database is set up, with what helps; None for any
    other."""
    from django.db import Error as DatabaseError

    from marketplace.checks import lacks_right, lacks_step
    from tenants.common.failures import DATABASE, unavailable_of

    reason = " ".join(str(error).partition("\nLINE ")[0].split()).rstrip(".?")
    if unavailable_of(error) is DATABASE:
        return f"The database does not answer: {reason}. Look at PostgreSQL and DATABASE_URL."
    if not isinstance(error, DatabaseError):
        return None
    if lacks_step(error):
        return (
            f"The database lacks steps of this version: {reason}. Run `manage.py migrate` with DATABASE_OWNER_URL, then"
            " this again."
        )
    if lacks_right(error):
        return (
            f"A role of the database lacks a right: {reason}. `manage.py doctor` says which ones it needs; `manage.py"
            " database_roles --apply` with DATABASE_OWNER_URL gives them."
        )
    return None
