#!/usr/bin/env python
"""`manage.py up` runs the whole product; every other command joins what `up` is running, if anything is."""

try:
    from marketplace.commands import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("marketplace", "scheduling", "tenants"):
        raise  # a fault of ours
    raise SystemExit(
        f"This Python has no module {error.name}: type .venv/bin/python manage.py, and `make install` before, where "
        "there is no .venv."
    ) from None

if __name__ == "__main__":
    main()
