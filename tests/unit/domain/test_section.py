"""The JSON Schema of a policy says what its source says of each field."""

from swath.domain.execution_policy import ExecutionPolicy, PolicyModel


class Inner(PolicyModel):
    n: int = 1
    """How many.

    At most a few.
    """
    plain: int = 2


class Outer(PolicyModel):
    inner: Inner = Inner()
    """What is inside."""


def test_what_stands_below_a_field_is_its_description() -> None:
    schema = Outer.model_json_schema()
    inner = schema["$defs"]["Inner"]["properties"]
    assert inner["n"]["description"] == "How many.\n\nAt most a few."
    assert "description" not in inner["plain"]
    assert schema["properties"]["inner"]["description"] == "What is inside."


def test_a_class_without_a_source_has_no_descriptions() -> None:
    made = type("Made", (PolicyModel,), {"__annotations__": {"n": int}, "__module__": __name__})
    assert issubclass(made, PolicyModel)
    assert made.model_json_schema()["properties"] == {"n": {"title": "N", "type": "integer"}}


def test_a_policy_explains_itself() -> None:
    throttling = ExecutionPolicy.model_json_schema()["$defs"]["Throttling"]["properties"]
    assert "over all workers" in throttling["max_concurrent_workers"]["description"]
