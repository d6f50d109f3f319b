"""Read and write scenario files, which hold everything that a decision needs. No file is opened here: `read` turns text
into values, and `write` turns them back."""

from scheduling.core.scenario.fields import BadScenario, Section
from scheduling.core.scenario.model import Preload, Scenario
from scheduling.core.scenario.reading import read
from scheduling.core.scenario.strict import parse
from scheduling.core.scenario.writing import to_json, write

__all__ = ["BadScenario", "Preload", "Scenario", "Section", "parse", "read", "to_json", "write"]
