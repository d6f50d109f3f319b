"""Scenario files: everything a decision needs. Text in, values out, and back; no file is opened here."""

from scheduling.core.scenario.fields import BadScenario, Section
from scheduling.core.scenario.model import Preload, Scenario
from scheduling.core.scenario.reading import read, read_policy
from scheduling.core.scenario.strict import parse
from scheduling.core.scenario.writing import to_json, write

__all__ = ["BadScenario", "Preload", "Scenario", "Section", "parse", "read", "read_policy", "to_json", "write"]
