"""What `manage.py engine import` refuses before it asks the cluster; tests/engines/slurm has what it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduling.models import Pool
from tests.database import as_superuser
from tests.scheduling.builders import make_pool

pytestmark = pytest.mark.django_db


def refusal(*words: object) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("engine", "import", *words)
    return str(refused.value)


def test_a_table_of_owners_that_cannot_be_read_is_refused_with_a_sentence(tmp_path: Path) -> None:
    pool, table = make_pool(), tmp_path / "owners.csv"
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(engine="slurm")
    words = ["--name", "slurm", "--pool", pool.slug, "--owners"]
    assert refusal(*words, table) == f"{table} cannot be read: No such file or directory."
    table.write_bytes(b"n1,\xff\n")
    assert refusal(*words, table) == f"{table} is no text in UTF-8."
    for line in ("n2;chemistry", "n2", "n2,", ",chemistry", "n2,chemistry,biology", "n1,chemistry"):
        table.write_text(f"n1,physics\n\n{line}\nn3,physics\n")
        assert refusal(*words, table) == f"{table}, line 3: “{line}” is not a server, a comma and a tenant, each once."
    table.write_text("\ufeffn1 , physics\n,\npartition:fast,physics\n")  # as spreadsheets write it
    assert "There is no engine 'slurm'" in refusal(*words, table)


def test_a_cluster_is_brought_into_no_pool_of_another_engine() -> None:
    pool = make_pool()
    assert refusal("--name", "slurm", "--pool", pool.slug, "--confirm") == (
        f"The pool {pool.slug} runs on the engine local, and not on slurm."
    )
