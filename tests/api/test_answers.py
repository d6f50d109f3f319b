"""Fields of answers are shared by all answers of a class; a secret that one of them shows is not."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework import serializers

from tenants.api.fields import Answer


class Inner(Answer):
    name = serializers.CharField()


class AnswerWithSecret(Answer):
    inner = Inner()
    secret = serializers.SerializerMethodField()

    def get_secret(self, value: Any) -> str:
        return str(self.context["secret"])


class Plain(Answer):
    inner = Inner()
    several = Inner(many=True)


def test_answers_of_a_class_share_their_fields() -> None:
    one, other = Plain(), Plain()
    assert one.fields["inner"] is other.fields["inner"]
    value = {"inner": {"name": "a"}, "several": [{"name": "b"}, {"name": "c"}]}
    assert Plain(value).data == value
    assert Plain([value, value], many=True).data == [value, value]


def test_what_one_answer_is_told_no_other_one_shows() -> None:
    value = {"inner": {"name": "a"}}
    first = AnswerWithSecret(value, context={"secret": "one"})
    second = AnswerWithSecret(value, context={"secret": "two"})
    assert (first.data["secret"], second.data["secret"], first.data["inner"]) == ("one", "two", {"name": "a"})
    with pytest.raises(KeyError):
        _ = AnswerWithSecret(value).data
