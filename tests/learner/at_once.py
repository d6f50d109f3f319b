"""`scheduling.learner.idle`, but for the priority."""

import sys
from unittest.mock import patch

from scheduling.learner import idle

if __name__ == "__main__":
    with patch.multiple(idle, lowest_priority=lambda: None, session_of_its_own=lambda: None):
        idle.main(*sys.argv[1:])
