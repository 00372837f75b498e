"""A4: a whole recording is looked through before anything runs: its references, names and selectors."""

from __future__ import annotations

import pytest

from swath.domain.errors import BadInput
from swath.recordings.document import check_recording, parse_recording
from swath.recordings.schema.recording import Recording
from swath.recordings.schema.steps import Click, Goto, Press
from swath.recordings.validation.selectors import selector_error

pytestmark = pytest.mark.req("A4")

HEAD = "swath_recording: 1\nid: flow\ninputs: {parcel: {}, year: {}}\nsteps:\n"
OWNER = "{do: extract, field: owner, on: td}"
ROWS = "{do: extract, field: rows, on: tr, kind: list}"
USE = "{do: type, on: a, text: '{{ value.owner }}'}"
IF = "{do: if, condition: {text: a}, then: [%s], else: [%s]}"
FOR = "{do: for_each, on: tr, collect: bills, steps: [%s]}"
PLAIN_FOR = "{do: for_each, on: tr, steps: [%s]}"
TRY = "{do: try, steps: [%s], else: [%s]}"
RECOVER = "recover: [{when: {text: a}, steps: [%s]}]\n"
TYPE = "{do: type, on: a, text: '{{ %s }}'}"
EXTRACT = "{do: extract, field: %s, on: td%s}"
UNTIL = "{do: repeat_until, condition: {text: a}, collect: bills, steps: [%s]}"


def text_of(*steps: str, more: str = "") -> str:
    return HEAD + "".join(f"- {step}\n" for step in steps) + more


def refusal(*steps: str, more: str = "") -> str:
    with pytest.raises(BadInput) as refused:
        parse_recording(text_of(*steps, more=more), "flow.yaml")
    return str(refused.value)


def passes(*steps: str, more: str = "") -> None:
    parse_recording(text_of(*steps, more=more), "flow.yaml")


# -- references --------------------------------------------------------------------------------------------------------


@pytest.mark.req("A2")
@pytest.mark.parametrize(
    "step",
    [
        "{do: goto, url: 'https://a.example/{{ %s }}'}",
        "{do: click, on: '#row-{{ %s }}'}",
        "{do: click, on: a, target: 'https://a.example/{{ %s }}'}",
        "{do: type, on: a, text: '{{ %s }}'}",
        "{do: select, on: a, option: '{{ %s }}'}",
        "{do: upload, on: a, file: '{{ %s }}'}",
        "{do: wait_for, text: '{{ %s }}'}",
        "{do: wait_for, url: '{{ %s }}'}",
        "{do: wait_for, on: a, attributes: {id: '{{ %s }}'}}",
        "{do: screenshot, file: '{{ %s }}'}",
        "{do: download, on: a, file: '{{ %s }}'}",
        "{do: stop, message: '{{ %s }}'}",
        "{do: if, condition: {value: '{{ %s }}'}}",
        "{do: if, condition: {value: a, equals: '{{ %s }}'}}",
        "{do: if, condition: {on: '[id=\"{{ %s }}\"]'}}",
        "{do: for_each, values: ['{{ %s }}'], steps: [{do: back}]}",
        "{do: repeat_until, condition: {url: '{{ %s }}'}, steps: [{do: back}]}",
        "{do: try, steps: [{do: type, on: a, text: '{{ %s }}'}]}",
    ],
)
def test_references_are_to_declared_inputs_wherever_they_stand(step: str) -> None:
    passes(step % "input.parcel")
    message = refusal(step % "input.parcels")
    assert "{{ input.parcels }}: there is no such input; did you mean 'parcel'?" in message
    assert "step 1" in message


@pytest.mark.parametrize(
    "reference", ["secret.x", "env.HOME", "inputs.parcel", "parcel", "input", "value", "loop", "self.a"]
)
def test_other_references_are_refused(reference: str) -> None:
    assert "step 1 (type): text: {{ " + reference + " }}: " in refusal(TYPE % reference)


def test_an_input_whose_name_none_can_have_is_told_why() -> None:
    assert "there is no such input; names of inputs have small letters" in refusal(TYPE % "input.OWNER")


def test_values_are_known_once_they_may_have_been_extracted() -> None:
    passes(OWNER, USE)
    passes(IF % (OWNER, "{do: back}"), USE)
    passes(TRY % (OWNER, USE))
    passes(FOR % f"{USE}, {OWNER}")  # by an earlier turn
    for steps in ([USE, OWNER], [IF % (OWNER, USE)], [FOR % OWNER, USE], [USE]):
        assert "{{ value.owner }}: nothing extracts it before" in refusal(*steps)


def test_lists_are_no_text() -> None:
    assert "is a list" in refusal(ROWS, "{do: type, on: a, text: '{{ value.rows }}'}")
    assert "is a list" in refusal(FOR % OWNER, "{do: type, on: a, text: '{{ value.bills }}'}")


def test_loops_are_known_inside_only() -> None:
    use = "{do: type, on: a, text: '{{ loop.%s }}'}"
    loop = "{do: %s, steps: [%s]}"
    for_each, until = "for_each, on: tr", "repeat_until, condition: {text: a}"
    passes(loop % (for_each, use % "index"), loop % (for_each, use % "value"), loop % (until, use % "index"))
    assert "a loop of this kind has 'index'" in refusal(loop % (until, use % "value"))
    assert "a loop of this kind has" in refusal(loop % (for_each, use % "turn"))
    assert "there is no loop around this" in refusal(loop % (for_each, "{do: back}"), use % "index")
    assert "there is no loop around this" in refusal(
        "{do: for_each, values: ['{{ loop.index }}'], steps: [{do: back}]}"
    )


def test_what_is_done_at_any_time_knows_inputs_only() -> None:
    recover = "recover: [{when: {text: '%s'}, steps: [{do: click, on: '#x-%s'}]}]\n"
    passes(OWNER, more=recover % ("{{ input.year }}", "{{ input.year }}"))
    assert "recover.1.when.text: {{ value.owner }}" in refusal(OWNER, more=recover % ("{{ value.owner }}", "a"))
    assert "step recover.1.steps.1 (click): on" in refusal(OWNER, more=recover % ("a", "{{ value.owner }}"))
    assert "not_found.1.text: {{ value.owner }}" in refusal(OWNER, more="not_found: [{text: '{{ value.owner }}'}]")


def test_rules_of_extraction_know_nothing_of_the_item() -> None:
    assert "stored pages" in refusal("{do: extract, field: a, on: '#row-{{ input.parcel }}'}")


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_field_is_one_thing() -> None:
    typed = "{do: extract, field: owner, on: p, type: money}"
    passes(IF % (OWNER, "{do: extract, field: owner, on: p, kind: attribute, attribute: title}"))
    passes(FOR % OWNER, typed)  # that of the loop is in the loop's records
    for steps in ([OWNER, typed], [IF % (OWNER, typed)], [ROWS, "{do: extract, field: rows, on: a}"]):
        assert "give both the same kind and type" in refusal(*steps)
    assert "'bills' is read by step 1 as something else" in refusal("{do: extract, field: bills, on: a}", FOR % OWNER)


def test_what_is_flattened_has_rows() -> None:
    loop = "{do: for_each, on: tr, collect: bills, flatten: %s, steps: [%s, %s]}"
    passes(loop % ("rows", "{do: extract, field: rows, on: table, kind: table}", OWNER))
    passes(loop % ("units", "{do: extract, field: units, on: li, kind: list, fields: {a: {on: b}}}", OWNER))
    assert "nothing in this loop extracts 'row'" in refusal(loop % ("row", ROWS, OWNER))
    assert "'rows' has no rows" in refusal(loop % ("rows", ROWS, OWNER))
    assert "'owner' has no rows" in refusal(loop % ("owner", ROWS, OWNER))
    assert "needs collect" in refusal("{do: for_each, on: tr, flatten: rows, steps: [{do: back}]}")


def test_what_is_extracted_in_a_loop_is_collected() -> None:
    assert "step 1.steps.1 (extract): " in refusal(PLAIN_FOR % OWNER)
    outer = PLAIN_FOR % (FOR % OWNER)
    assert "needs the loop's collect" in refusal(outer)
    passes("{do: for_each, on: tr, collect: pages, steps: [%s]}" % (FOR % OWNER))
    assert "nothing is extracted in this loop" in refusal(UNTIL % "{do: back}")


def test_two_loops_do_not_fill_one_list() -> None:
    passes(IF % (FOR % OWNER, UNTIL % OWNER))
    assert "'bills' is read by step 1" in refusal(FOR % OWNER, UNTIL % OWNER)


def test_nothing_is_extracted_while_a_step_is_recovered() -> None:
    more = RECOVER % OWNER
    assert "step recover.1.steps.1 (extract): nothing can be extracted" in refusal("{do: back}", more=more)


def extract(field: str, page: str | None = None) -> str:
    return EXTRACT % (field, f", page: {page}" if page else "")


def test_no_page_takes_the_place_of_another() -> None:
    back = "{do: back}"
    passes(extract("a"), extract("b"), back, extract("c"))
    passes(extract("a", "x"), extract("b", "x"))
    passes(IF % ("{do: save_page, page: x}", "{do: save_page, page: x}"))
    passes("{do: save_page, page: x}", extract("a", "x"))
    passes(extract("a", "x"), FOR % extract("a", "x"))  # x and x-t1
    for steps in (
        [extract("a", "x"), back, extract("b", "x")],
        [extract("a", "x"), back, "{do: save_page, page: X}"],
        [extract("a"), back, extract("b", "html")],
        [IF % (extract("a", "x"), extract("a", "x"))],  # read again, both would find it
        [extract("a"), back, extract("b"), back, extract("c", "html-2")],
        [TRY % (extract("a", "x"), extract("a", "x"))],
        [FOR % extract("a", "x"), (FOR % extract("a", "x")).replace("bills", "more")],
    ):
        assert "give one of them another page" in refusal(*steps)


def test_pages_do_not_have_the_names_of_others() -> None:
    assert "what made an item fail" in refusal("{do: save_page, page: refused}")
    assert "ends as pages of loops do" in refusal("{do: save_page, page: html-t1}")
    assert "page: must match" in refusal("{do: save_page, page: ../x}")


def test_no_file_takes_the_place_of_another() -> None:
    shot = "{do: screenshot, file: '%s'}"
    passes(shot % "a.png", shot % "b.png", "{do: screenshot}", IF % (shot % "c.png", shot % "c.png"))
    assert "'a.png' is stored by step 1, too" in refusal(shot % "a.png", "{do: download, on: a, file: a.png}")
    assert "'screenshot.png' is stored by step 1, too" in refusal("{do: screenshot}", "{do: screenshot}")
    loop = "{do: for_each, on: tr, steps: [%s]}"
    passes(loop % (shot % "{{ loop.index }}.png"), loop % (shot % "{{ loop.value }}.png"))
    assert "each turn of the loop would replace it" in refusal(loop % (shot % "a.png"))
    assert "each turn of the loop would replace it" in refusal(loop % (shot % "{{ input.parcel }}.png"))


# -- selectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector",
    [
        *("#go", "a:has(> b)", ":scope > a", "input:focus-visible", "p:lang(en)", "a[href*='//']", "#a\\:b", "#\\31 0"),
        *("td:nth-child({{ input.parcel }})", "#row-{{ input.parcel }}", "{{ input.parcel }}", "[a='b >> c']"),
        *('aria/Search[role="button"]', "text/5 > 3", "pierce/#a", "css/a", "xpath//html/body/a", 'xpath///*[@id="x"]'),
        *("xpath/(//tr)[{{ loop.index }}]", "xpath///td[normalize-space(.)='Owner']/following-sibling::td[1]"),
        *(
            "xpath///tr[.//a[contains(@href, '//')]]",
            "xpath///a[.='{{ input.parcel }}']",
            "xpath///a[not(ancestor::div)]",
        ),
        "body > div:nth-of-type(2) > svg|a",
        *("xpath///a[b and div/c]", "xpath///a[*/b]", "xpath///a[child::*/b]", "xpath///a[b and */c]"),
        *("xpath///a[../b/text()]", "xpath///a[@x * 2 = 4]", "xpath///tr[td[1]/a/@href = '/x']", "xpath///a[b[1]/c]"),
    ],
)
def test_selectors_that_browsers_know(selector: str) -> None:
    assert selector_error(selector) is None


@pytest.mark.parametrize(
    "selector",
    [
        *(
            "a,,b",
            "a >",
            "#1",
            ".1a",
            "a:visible",
            "a:has-text('x')",
            "::-p-aria(x)",
            "internal:role=x",
            "a{}",
            "aria/",
        ),
        *("text/ ", "xpath/", "css/", "pierce/>>>", "a:lexbor-contains('x')", "a || b", "a\tb", "a\u2028b", "xpath/]"),
        *("xpath///a[", "xpath///a[foo()]", "xpath///*[//*]", "xpath///a[b[c[d[e[f]]]]]", "xpath///*[. = //b]"),
        "xpath///*[.//a][.//b][.//c][.//d]",
        "xpath///*[count(/descendant::*[count(/descendant::*[count(/descendant::*)>99999])>0])>0]",
        *("xpath///a[/html]", "xpath///a[1 div//x]", "xpath///a[@x * /b]", "xpath///a[b or /c]", "xpath///a[b | /c]"),
    ],
)
def test_selectors_that_nobody_knows(selector: str) -> None:
    assert selector_error(selector) is not None


def test_what_only_browsers_know_is_refused_on_stored_pages() -> None:
    assert "stored pages" in refusal("{do: extract, field: a, on: 'input:focus-visible'}")
    fields = "{do: extract, field: a, on: tr, kind: list, fields: {b: {on: 'a >> b'}}}"
    assert "step 1 (extract): fields.b.on: 'a >> b'" in refusal(fields)


def test_the_alternative_that_is_wrong_is_named() -> None:
    assert "step 1 (click): on.2: 'a >> b'" in refusal("{do: click, on: [a, 'a >> b']}")
    assert "condition.on: 'a >> b'" in refusal("{do: if, condition: {on: 'a >> b'}}")
    assert "not_found.1.on: 'a >> b'" in refusal("{do: back}", more="not_found: [{on: 'a >> b'}]")
    assert "recover.1.when.on: 'a >> b'" in refusal(
        "{do: back}", more="recover: [{when: {on: 'a >> b'}, steps: [{do: back}]}]"
    )


# -- recordings that were made in Python -------------------------------------------------------------------------------


def test_recordings_of_importers_are_checked_alike() -> None:
    good = Recording(swath_recording=1, id="a", steps=(Goto(do="goto", url="https://a.example/"),))
    check_recording(good, "a", javascript=False)
    steps = (Press(do="press", key="nokey"), Click(do="click", on=(("a >> b",),)))
    with pytest.raises(BadInput, match=r"^a: step 1 \(press\): key: .*; step 2 \(click\): on: "):
        check_recording(good.model_copy(update={"steps": steps}), "a", javascript=False)
    with pytest.raises(BadInput, match="201 steps"):
        check_recording(good.model_copy(update={"steps": good.steps * 201}), "a", javascript=False)


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model_config", "model_fields", "model_dump", "_hidden"])
def test_names_that_records_need_for_themselves_are_refused_wherever_they_stand(name: str) -> None:
    told = f"{name!r} cannot be the name of an input or a field"
    assert told in refusal(EXTRACT % (name, ""))
    assert told in refusal(FOR.replace("bills", name) % OWNER)
    assert f"fields: {told}" in refusal(EXTRACT % ("rows", f", kind: list, fields: {{{name}: {{on: a}}}}"))
    assert f"columns: {told}" in refusal(EXTRACT % ("rows", f", kind: table, columns: {{{name}: Year}}"))
    with pytest.raises(BadInput, match=r"inputs: .* cannot be the name"):
        parse_recording(text_of(OWNER).replace("{parcel: {}", f"{{{name}: {{}}"), "flow.yaml")


def test_numbers_that_make_much_of_little_are_refused() -> None:
    assert "pad fills up to 1,000 characters" in refusal(TYPE % "input.parcel | pad(999999999)")
    assert "pad fills up to 1,000 characters" in refusal(TYPE % "input.parcel | pad(-1)")
    passes(TYPE % "input.parcel | pad(1000)")


def test_a_file_name_that_no_file_system_takes_is_refused() -> None:
    assert "has more than 255 bytes" in refusal("{do: upload, on: a, file: %s}" % ("é" * 128))
    passes("{do: upload, on: a, file: %s}" % ("é" * 127))


@pytest.mark.parametrize("name", ["flow.yaml", "flow.json"])
def test_a_number_of_thousands_of_digits_is_told_in_plain_words(name: str) -> None:
    steps = '"steps": [{"do": "reload"}]'
    with pytest.raises(BadInput, match="has a number of 5,000 digits") as refused:
        parse_recording(f'{{"swath_recording": 1, "id": "a", "step_seconds": {"9" * 5_000}, {steps}}}', name)
    assert "sys." not in str(refused.value)
    parse_recording(f'{{"swath_recording": 1, "id": "a", "step_seconds": 9, {steps}}}', name)


@pytest.mark.req("Z6")
def test_an_input_pattern_that_runs_away_is_refused() -> None:
    with pytest.raises(BadInput, match=r"inputs\.parcel\.pattern: .* can take for ever"):
        parse_recording(text_of(OWNER).replace("parcel: {}", "parcel: {pattern: 'a*a*a*b'}"), "flow.yaml")


@pytest.mark.parametrize("step", ["{do: screenshot, file: '%s'}", "{do: download, on: a, file: '%s'}"])
def test_what_is_stored_has_a_name_and_no_folder(step: str) -> None:
    for name in ("../x", "a/b.png", "..", ".", " .. ", "a\\b", "/etc/x", '{{ ".." }}', "{{ input.parcel }}/a.pdf"):
        assert "is no plain file name" in refusal(step % name), name
    for name in ("a.png", "..a", "{{ input.parcel }}", '{{ input.parcel | replace("/", "-") }}.pdf', "deed: 1.pdf"):
        passes(step % name)
