"""Scenario files: everything a decision needs. Text in, values out, and back; no file is opened here."""

from scheduling.core.scenario.fields import BadScenario
from scheduling.core.scenario.model import Preload, Scenario

__all__ = ["BadScenario", "Preload", "Scenario"]
