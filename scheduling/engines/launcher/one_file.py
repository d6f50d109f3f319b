"""The launcher as one file that any Python of a cluster can run: a zip with a `__main__`, named by its contents."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
BASE = HERE.parent.parent.parent
PURE = (
    "__init__",
    "archives",
    "fields",
    "progress",
    "starting",
)  # what processes are told and may say
MAIN = """import sys
what = sys.argv[1] if sys.argv[1:] else ""
if what == "launch":  # before every process of a gang: it loads little
    from scheduling.engines.launcher.launch import main
    sys.exit(main(*sys.argv[2:]))
if what == "unpack":
    from scheduling.engines.launcher.unpack import main
    sys.exit(main())
from scheduling.engines.launcher.parts import main
sys.exit(main(sys.argv[1:]))
"""


def sources() -> list[Path]:
    """The modules in it."""
    packages = [HERE.parent.parent / "__init__.py", HERE.parent / "__init__.py", HERE.parent / "base.py"]
    pure = [HERE.parent.parent / "programs" / f"{name}.py" for name in PURE]
    return sorted([*packages, *pure, *HERE.glob("*.py")])


def written(folder: Path) -> Path:
    """The file, below the folder; where it exists, it is left as it is."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        contents = {"__main__.py": MAIN.encode()}
        contents |= {str(path.relative_to(BASE)): path.read_bytes() for path in sources()}
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    target = folder / f"launcher-{hashlib.sha256(data.getvalue()).hexdigest()[:12]}.pyz"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_bytes(data.getvalue())
        draft.chmod(0o644)
        draft.replace(target)
    return target
