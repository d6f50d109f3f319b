"""Tetris: the tasks that fit the servers best are placed first, with a head start for jobs that end soon."""

from scheduling.core.policies.tetris.policy import Tetris, build

__all__ = ["Tetris", "build"]
