"""What belongs into the server's package; everything else stands in pyproject.toml.

Templates, static files and the interface's description lie beside the modules in a checkout, and below
`marketplace/files` in a package (`marketplace.places`).
"""

from setuptools import find_packages, setup

APPS = ("marketplace", "tenants", "scheduling")
CARRIED = {"templates": ["**/*"], "static": ["**/*"], "docs": ["openapi.yaml"]}

setup(
    packages=[
        *find_packages(
            include=[f"{app}{below}" for app in ("marketplace", "tenants", "scheduling") for below in ("", ".*")]
        ),
        *(f"marketplace.files.{folder}" for folder in CARRIED),
    ],
    package_dir={f"marketplace.files.{folder}": folder for folder in CARRIED},
    package_data={
        "": ["*.sql", "sql/*.sql", "*.npz", "*.css", "py.typed"],
        **{f"marketplace.files.{folder}": patterns for folder, patterns in CARRIED.items()},
    },
)
