"""Every command of the guide's page about Slurm does what the page says."""

from __future__ import annotations

import json
import re
import shlex
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from scheduling.models import Pool, Server
from scheduling.operator.api.pool_fields import NEW_EXAMPLE
from scheduling.runs.engines import slurm_settings
from tenants.roles import OPERATOR
from tests.api.builders import problem, program_of
from tests.engines.local import ROOT
from tests.engines.slurm.cluster import cluster
from tests.scheduling.builders import make_tenant

# It has a cluster of its own; on the others' cases go on, from before the database is made.
pytestmark = [pytest.mark.django_db, pytest.mark.meanwhile, pytest.mark.usefixtures("slurm")]
PAGE = (ROOT / "docs" / "guide" / "slurm.md").read_text()


def commands() -> list[list[str]]:
    """The lines of the page that somebody types."""
    lines = re.findall(r"^    ((?:scontrol|squeue|manage\.py) .*)$", PAGE, re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.wide
def test_every_command_of_the_page_works_in_its_order(tmp_path: Path, settings: Any) -> None:
    text = re.search(r"^    (\{\"slurm\": .*?^    \}\})$", PAGE, re.MULTILINE | re.DOTALL)
    assert text is not None
    described = json.loads(text[1])
    operator = program_of(OPERATOR, make_tenant("physics"))
    with cluster(gpus=1) as slurm:
        me = slurm.call("id", "-un").stdout.strip()
        here = {"shared": str(slurm.shared), "user": me, "python": sys.executable, "conf": str(slurm.conf)}
        path = tmp_path / "engines.json"
        path.write_text(json.dumps({"slurm": described["slurm"] | here}))
        settings.ENGINES_FILE = str(path)
        form = NEW_EXAMPLE | {"slug": "cluster", "engine": "slurm", "slot_seconds": 30}
        flaw = "Slots of the engine slurm last 60 seconds at least, not 30."
        assert problem(operator.post("/api/v1/pools/", form), 422, "invalid_pool")["detail"] == flaw
        assert operator.post("/api/v1/pools/", form | {"slot_seconds": 60}).status_code == 201
        pool = Pool.objects.get(slug="cluster")
        assert slurm_settings("slurm").resources == {"worker": "gres:gpu", "ps": "cpus"}
        ran = []
        for program, *words in commands():
            if [program, *words] == ["manage.py", "engine", "--name", "slurm"]:
                continue  # it runs until it is stopped; the other tests drive what it does
            words = [me if word == "bourse" else word.replace("Users=bourse", f"Users={me}") for word in words]
            if program == "manage.py":
                call_command(*words, stdout=(out := StringIO()))
                ran.append((words[1], out.getvalue()))
            else:
                done = slurm.call(program, *words)
                assert done.returncode == 0, (words, done.stderr)
                ran.append((program, done.stdout))
        assert [name for name, _ in ran] == ["scontrol", "--name", "import", "import", "squeue", "ran", "scontrol"]
        assert "can keep what the market promises" in ran[1][1]
        assert "Nothing was made." in ran[2][1]
        assert Server.objects.filter(pool=pool).count() == 3
        assert ran[5][1].startswith("job,tenant,slot,server,")
        assert operator.post("/api/v1/pools/cluster/hold/", {"reason": "We leave."}).status_code == 200
