"""Where the product's own files are, in a checkout and where it is installed as a package."""

import os
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent  # the folder that contains `marketplace`, `tenants` and `scheduling`
CHECKOUT = (MODULES / "manage.py").is_file()
# `templates`, `static` and `docs`: a package has them beside its modules (`setup.py`).
FILES = MODULES if CHECKOUT else MODULES / "marketplace" / "files"


def var_folder() -> Path:
    """Return the folder of data, keys and logs."""
    return Path(os.environ.get("BOURSE_VAR") or (MODULES / "var" if CHECKOUT else "/var/lib/bourse")).absolute()
