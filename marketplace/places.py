"""Where the product's own files lie, in a checkout and where it was installed as a package."""

import os
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent  # what holds `marketplace`, `tenants` and `scheduling`
CHECKOUT = (MODULES / "manage.py").is_file()
# `templates`, `static` and `docs`: a package carries them beside its modules (`setup.py`).
FILES = MODULES if CHECKOUT else MODULES / "marketplace" / "files"


def var_folder() -> Path:
    """Data, keys and logs."""
    return Path(os.environ.get("BOURSE_VAR") or (MODULES / "var" if CHECKOUT else "/var/lib/bourse")).absolute()
