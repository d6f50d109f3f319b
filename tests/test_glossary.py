"""A word of the glossary with more than one line says in each of them of what it is, and stands in one list."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"
LIST = "Words with more than one meaning"
ROW = re.compile(r"^\| (?!word |---)([^|]+) \|", re.MULTILINE)


def sections() -> dict[str, list[str]]:
    """The first column of each table, by the heading above it."""
    heads = re.split(r"^## (.+)$", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: ROW.findall(body) for title, body in zip(heads[1::2], heads[2::2], strict=True)}


def lines_by_word() -> dict[str, list[str]]:
    """Of the tables of subjects: word -> its lines, each as "held (credits)". A line may name several words."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for title, column in sections().items():
        if title not in ("First words", LIST):
            for cell in column:
                for term in re.split(r", (?![^(]*\))", cell):
                    lines[re.sub(r" *\(.*\)", "", term).strip("`")].append(term)
    return lines


def test_words_with_more_than_one_meaning_stand_in_one_list() -> None:
    several = sorted(word for word, lines in lines_by_word().items() if len(lines) > 1)
    assert sections()[LIST] == several


def test_of_several_lines_of_a_word_at_most_one_does_not_say_of_what_it_is() -> None:
    bare = {word: [line for line in lines if "(" not in line] for word, lines in lines_by_word().items()}
    assert {word: lines for word, lines in bare.items() if len(lines) > 1} == {}
