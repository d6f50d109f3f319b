"""Save and load a job: its parameters and how far it is, in one file that is either whole or not there."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from scheduling.engines.trainer.curve import Curve
from scheduling.engines.trainer.models import Floats
from scheduling.engines.trainer.settings import TrainerSettings

NAME = "checkpoint.npz"
# Settings that may differ between the run that wrote a checkpoint and the one that continues from it.
MAY_CHANGE = {"epochs", "minibatch_ms", "checkpoint_seconds", "gather_seconds", "patience_seconds", "stragglers"}


class BadCheckpoint(Exception):
    """Raised where a checkpoint cannot be used. The message is a sentence."""


def digest(parameters: Floats) -> str:
    """Return the SHA-256 of the parameters' bytes."""
    return hashlib.sha256(np.ascontiguousarray(parameters, dtype="<f8").tobytes()).hexdigest()


def save(folder: Path, settings: TrainerSettings, version: int, curve: Curve, parameters: Floats) -> Path:
    """Write a checkpoint beside the old one, then replace that, and return its path."""
    about = {"format": 1, "settings": asdict(settings), "version": version, "epochs": curve.epochs}
    losses = np.array(list(curve.open_losses()), dtype=np.float64).reshape(-1, 3)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        parameters=parameters,
        positions=np.array(curve.positions),
        losses=losses,
    )
    path, draft = folder / NAME, folder / f".{NAME}"
    with draft.open("wb") as file:
        file.write(buffer.getbuffer())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return path


def load(folder: Path, settings: TrainerSettings, size: int) -> tuple[int, Curve, Floats] | None:
    """Load version, curve and parameters; None if nothing was saved. Raises `BadCheckpoint`."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            parameters, positions, losses = file["parameters"], file["positions"], file["losses"]
        curve = Curve(settings)
        curve.epochs, curve.positions = list(about["epochs"]), [int(position) for position in positions]
        for round_, chunk, loss in losses:
            curve.rows.setdefault(int(round_), {})[int(chunk)] = float(loss)
        earlier, version = about["settings"], int(about["version"])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
        raise BadCheckpoint(f"The checkpoint {path.name} is damaged.") from None
    changed = [
        name for name, value in asdict(settings).items() if name not in MAY_CHANGE and earlier.get(name) != value
    ]
    if changed or parameters.shape != (size,):
        raise BadCheckpoint(f"The checkpoint was made with another {', '.join(changed) or 'model'}.")
    return version, curve, parameters
