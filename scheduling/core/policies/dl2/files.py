"""Weights as bytes: an .npz with the arrays and, as JSON text inside, the schema that they belong to.

The same weights give the same bytes. Apart from the weights that are shipped, nothing here opens a file: callers pass
its content.
"""

from __future__ import annotations

import hashlib
import io
import json
import pkgutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.policies.dl2.networks import NAMES, Weights
from scheduling.core.policies.dl2.shape import NetworkShape

FORMAT = "dl2/1"
LARGEST = 2**28  # the most bytes that arrays may take once unpacked


class BadWeights(ValueError):
    """The bytes are no file of weights."""


@dataclass(frozen=True, eq=False)
class Network:
    """A policy network and its shape. `facts` describe its training: seed, teacher, rounds and more."""

    shape: NetworkShape
    weights: Weights
    facts: Mapping[str, Any]
    digest: str = ""  # SHA-256 of the bytes it was read from


@dataclass(frozen=True)
class WeightFile:
    """A file of weights that was read. It replaces the file's name in the settings of a policy."""

    name: str
    content: bytes


def pack(arrays: Mapping[str, Any], *, compressed: bool = True) -> bytes:
    """Return the bytes of an .npz with the arrays under their names, in the order of the names."""
    stream = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(stream, **{name: arrays[name] for name in sorted(arrays)})
    return stream.getvalue()


def unpack(content: bytes) -> dict[str, Any]:
    """Return the arrays in bytes that `pack` made. Raises `BadWeights` for other bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            if sum(part.file_size for part in parts.infolist()) > LARGEST:
                raise BadWeights("is too large")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, KeyError, NotImplementedError) as error:
        raise BadWeights("is no .npz of weights") from error


def schema(shape: NetworkShape, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema that a file of weights has inside."""
    return {"format": FORMAT, "shape": shape.document(), "training": dict(facts)}


def encode(network: Network) -> bytes:
    """Return the network as a file of weights, in half precision: decisions need no more, and it is half as large."""
    arrays: dict[str, Any] = {name: array.astype(np.float16) for name, array in network.weights.items()}
    text = json.dumps(schema(network.shape, network.facts), sort_keys=True)
    return pack(arrays | {"schema": np.frombuffer(text.encode(), np.uint8)})


def decode(content: bytes) -> Network | str:
    """Return the network in a file of weights, or the code of why it cannot be used: it was made for another version of
    the program, or has numbers that are not finite.

    Raises `BadWeights` if the bytes are no file of weights.
    """
    arrays = unpack(content)
    try:
        document = json.loads(arrays.pop("schema").tobytes())
    except (KeyError, AttributeError, ValueError) as error:
        raise BadWeights("has no schema") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return "weights_outdated"
    try:
        shape = NetworkShape.read(document["shape"])
    except (KeyError, TypeError, ValueError):
        return "weights_outdated"
    expected = sizes(shape)
    if {name: array.shape for name, array in arrays.items()} != expected:
        return "weights_outdated"
    weights = {name: np.ascontiguousarray(arrays[name], np.float32) for name in NAMES}
    if not all(np.isfinite(array).all() for array in weights.values()):
        return "weights_not_finite"
    return Network(shape, weights, document.get("training", {}), hashlib.sha256(content).hexdigest())


def sizes(shape: NetworkShape) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a policy network."""
    hidden, outputs = shape.hidden, shape.actions
    matrices = {"w1": (shape.inputs, hidden), "w2": (hidden, hidden), "w3": (hidden, outputs)}
    return {**matrices, "b1": (hidden,), "b2": (hidden,), "b3": (outputs,)}


def shipped(name: str) -> Network | str:
    """Return the network that comes with the program, as `decode` does; `weights_untrained` where none comes."""
    content = shipped_bytes(name)
    return "weights_untrained" if content is None else decode(content)


def shipped_bytes(name: str) -> bytes | None:
    """Return the content of a file of weights that comes with the program, None if there is no such file."""
    try:
        return pkgutil.get_data(__package__, f"{name}.npz")
    except FileNotFoundError:
        return None
