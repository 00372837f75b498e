"""The page on the API says what the app says: endpoints, scopes, parameters, answers, error codes, and no others."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from swath.entrypoints.api.app import ROUTERS, make_app
from swath.entrypoints.api.controller import Controller
from swath.entrypoints.api.errors import STATUS_OF
from swath.entrypoints.api.models import NewJob
from swath.entrypoints.api.routing import required_scope
from swath.entrypoints.api.scrape_models import TaskState, TaskView
from swath.settings import Settings
from tests.docs.pages import ROOT, code_in, rows_of, section_of

pytestmark = pytest.mark.req("G1", "I1")

PAGE = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
# Of the controller nothing but its settings is looked at before a request comes.
OPENAPI = make_app(cast("Controller", SimpleNamespace(settings=Settings()))).openapi()


class Endpoint(NamedTuple):
    scope: str
    takes: frozenset[str]
    answers: frozenset[str]
    errors: frozenset[str]


def told() -> dict[str, Endpoint]:
    found = {}
    for cells in rows_of(PAGE):
        if len(cells) == 5:
            endpoint, scope, takes, answers, errors = cells
            statuses = re.match(r"[\d, or]*", answers)
            assert statuses is not None
            numbers = [*re.findall(r"\b[23]\d\d\b", statuses[0]), *re.findall(r"; (2\d\d): ", answers)]
            found[code_in(endpoint)[0]] = Endpoint(
                scope.strip("`"), frozenset(code_in(takes)), frozenset(numbers), frozenset(code_in(errors))
            )
    return found


TOLD = told()


def calls(dependant: Dependant) -> Iterator[object]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from calls(inner)


def scopes() -> dict[str, str]:
    routes = [route for module in ROUTERS for route in module.router.routes if isinstance(route, APIRoute)]
    return {
        f"{method} {route.path}": str(required_scope(calls(route.dependant)) or "none")
        for route in routes
        if route.include_in_schema
        for method in route.methods or ()
    }


def codes_of(operation: dict[str, Any]) -> set[str]:
    return {
        code
        for answer in operation["responses"].values()
        for content in answer.get("content", {}).values()
        for code in content.get("examples", {})
        if code in STATUS_OF
    }


OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in OPENAPI["paths"].items()
    for method, operation in item.items()
}
ANYWHERE = frozenset.intersection(*(frozenset(codes_of(one)) for one in OPERATIONS.values() if one["security"]))


def test_every_endpoint_is_told_and_no_other() -> None:
    assert TOLD.keys() == OPERATIONS.keys()


def test_every_endpoint_has_its_scope() -> None:
    assert {name: endpoint.scope for name, endpoint in TOLD.items()} == scopes()


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_endpoint_takes_and_answers_what_the_page_says(name: str) -> None:
    operation, endpoint = OPERATIONS[name], TOLD[name]
    wanted = {one["name"].lower() for one in operation.get("parameters", ()) if one["in"] != "path"}
    assert wanted <= {word.lower() for word in endpoint.takes}
    assert endpoint.answers == {status for status in operation["responses"] if status[0] in "23"}
    assert endpoint.errors == codes_of(operation) - ANYWHERE


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "POST /jobs/{job_id}/items"])
def test_every_field_of_a_body_is_told(name: str) -> None:
    """Those of an order have a table of their own; the sync body is told by what it adds."""
    content = OPERATIONS[name].get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = re.search(r"#/components/schemas/(\w+)", str(content.get("schema", "")))
    fields = set() if reference is None else set(OPENAPI["components"]["schemas"][reference[1]].get("properties", ()))
    known = set(TOLD[name].takes)
    if "an [order]" in next(cells[2] for cells in rows_of(PAGE) if cells[0] == f"`{name}`"):
        known |= {word for cells in rows_of(section_of(PAGE, "### An order")) for word in code_in(cells[0])}
    if name.endswith("/sync"):
        known |= TOLD[name.removesuffix("/sync")].takes
    assert fields <= known


def test_every_error_code_has_its_status_and_a_mark_if_it_may_come_from_anywhere() -> None:
    rows = rows_of(section_of(PAGE, "## Errors"))
    assert {code_in(code)[0]: int(status) for code, status, _ in rows} == {str(k): v for k, v in STATUS_OF.items()}
    assert {code_in(code)[0] for code, _, _ in rows if "*any*" in code} == ANYWHERE


def first_words(heading: str) -> set[str]:
    return {word for cells in rows_of(section_of(PAGE, heading)) for word in code_in(cells[0])}


def test_shapes_are_those_of_the_models() -> None:
    assert first_words("### An order") == set(NewJob.model_fields)
    assert first_words("### A task") == set(TaskView.model_fields)
    states = section_of(PAGE, "## Scrapes on demand").partition("### A task")[0]
    assert [cells[0].strip("`") for cells in rows_of(states) if len(cells) == 2] == [str(one) for one in TaskState]


@pytest.mark.req("J2")
def test_every_parameter_of_a_load_is_told_with_its_default_and_words() -> None:
    parameters = [one for one in OPERATIONS["POST /jobs/{job_id}/items"]["parameters"] if one["in"] != "path"]
    rows = {cells[0].strip("`"): cells for cells in rows_of(section_of(PAGE, "### Loading rows"))}
    assert {name.lower() for name in rows} == {one["name"].lower() for one in parameters}
    for one in parameters:
        _, default, meaning = next(cells for name, cells in rows.items() if name.lower() == one["name"].lower())
        if one["schema"].get("default"):
            assert default == f"`{one['schema']['default']}`"
        choices = one["schema"].get("anyOf", [{}])[0].get("enum") or _enum_of(one["schema"])
        assert set(choices) <= {*code_in(meaning), *code_in(default)}


def _enum_of(schema: dict[str, Any]) -> list[str]:
    referred = OPENAPI["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
    words: list[str] = referred.get("enum", [])
    return words
