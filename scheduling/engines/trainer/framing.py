"""Read and write messages between the processes of a job: a length-prefixed header in JSON, then arrays as plain bytes.

Nothing in a message can be executed: there is no pickle, only two kinds of numbers, and each size is checked first.

    4 bytes  length of the header, 8 bytes length of the body, both big-endian
    header   {"kind": "push", "fields": {...}, "arrays": [["<f8", [3, 2]], ...]}
    body     the arrays one after the other, rows first
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LENGTHS = struct.Struct(">IQ")
LONGEST_HEADER = 1 << 20
LONGEST_BODY = 1 << 28
MOST_ARRAYS, MOST_AXES = 64, 4
KINDS = ("<f8", "<i8")


class ConnectionLost(Exception):
    """Raised where the other side is gone, or silent for too long."""


class BadMessage(Exception):
    """Raised where the bytes that came are no message of ours, or a message is too long."""


@dataclass(frozen=True)
class WireMessage:
    """A message: a kind, plain values, and arrays."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: tuple[np.ndarray[Any, Any], ...] = ()


def send(connection: socket.socket, message: WireMessage) -> None:
    """Write a message; raises `ConnectionLost`."""
    arrays = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in message.arrays]
    described = [[array.dtype.str, list(array.shape)] for array in arrays]
    header = json.dumps({"kind": message.kind, "fields": message.fields, "arrays": described}).encode()
    body = sum(array.nbytes for array in arrays)
    if len(header) > LONGEST_HEADER or body > LONGEST_BODY:
        raise BadMessage(f"A message of {len(header)} + {body} bytes is too long.")
    try:
        connection.sendall(LENGTHS.pack(len(header), body) + header)
        for array in arrays:
            if array.nbytes:
                connection.sendall(_bytes(array))
    except OSError as error:
        raise ConnectionLost(_why(error)) from None


def receive(connection: socket.socket, longest_body: int = LONGEST_BODY) -> WireMessage:
    """Read a message; raises `ConnectionLost` or `BadMessage`."""
    header_length, body_length = LENGTHS.unpack(exactly(connection, LENGTHS.size))
    if header_length > LONGEST_HEADER or body_length > longest_body:
        raise BadMessage(f"A message of {header_length} + {body_length} bytes is too long.")
    kind, fields, shapes = _header(exactly(connection, header_length))
    if sum(8 * math.prod(shape) for _, shape in shapes) != body_length:
        raise BadMessage("The arrays of a message do not fill its body.")
    arrays = []
    for dtype, shape in shapes:
        array = np.empty(shape, dtype=dtype)
        if array.nbytes:
            _fill(connection, _bytes(array))
        arrays.append(array)
    return WireMessage(kind, fields, tuple(arrays))


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the memory of a contiguous array that is not empty."""
    return array.reshape(-1).view(np.uint8).data


def _header(text: bytes) -> tuple[str, dict[str, Any], list[tuple[str, tuple[int, ...]]]]:
    try:
        header = json.loads(text)
        kind, fields, described = header["kind"], header["fields"], header["arrays"]
        shapes = [(dtype, tuple(shape)) for dtype, shape in described]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadMessage("The header of a message cannot be read.") from None
    plain = isinstance(kind, str) and isinstance(fields, dict) and len(shapes) <= MOST_ARRAYS
    if not plain or not all(_is_shape(dtype, shape) for dtype, shape in shapes):
        raise BadMessage("The header of a message is not of the right form.")
    return kind, fields, shapes


def _is_shape(dtype: object, shape: Sequence[object]) -> bool:
    return dtype in KINDS and len(shape) <= MOST_AXES and all(type(axis) is int and axis >= 0 for axis in shape)


def exactly(connection: socket.socket, length: int) -> bytes:
    """Read exactly `length` bytes; raises `ConnectionLost`."""
    buffer = bytearray(length)
    _fill(connection, memoryview(buffer))
    return bytes(buffer)


def _fill(connection: socket.socket, buffer: memoryview) -> None:
    while buffer:
        try:
            count = connection.recv_into(buffer)
        except OSError as error:
            raise ConnectionLost(_why(error)) from None
        if not count:
            raise ConnectionLost("the connection was closed")
        buffer = buffer[count:]


def _why(error: OSError) -> str:
    return (
        "no answer in time" if isinstance(error, TimeoutError) else (error.strerror or "the connection broke").lower()
    )
