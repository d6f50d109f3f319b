import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """pytest's own temporary folders have paths too long for a socket, and root's servers may not enter them."""
    folder = Path(tempfile.mkdtemp(prefix="bourse-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)
