from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.demo.county import exists, parcel
from swath.demo.county.parcels import MISSING_ONE_IN, _SeededDraws

pytestmark = pytest.mark.req("K5")

parcel_ids = st.from_regex(r"[0-9]{3}-[0-9]{2}-[0-9]{3}", fullmatch=True)


def test_the_truth_is_the_same_everywhere_and_for_ever() -> None:
    """Values written down once; if this fails, every expectation that others derived from the site is wrong too."""
    truth = parcel("200-14-030")
    assert (truth.owner, truth.layout, truth.total_due) == ("MILLER JOSÉ", "list", Decimal("758.46"))
    assert sum(not exists(f"100-00-{item:03d}") for item in range(1000)) == 42


def test_one_number_in_twenty_is_no_parcel() -> None:
    numbers = [f"{book:03d}-{map_:02d}-{item:03d}" for book in range(10) for map_ in range(10) for item in range(200)]
    missing = sum(not exists(number) for number in numbers) / len(numbers)
    assert missing == pytest.approx(1 / MISSING_ONE_IN, abs=0.005)


@pytest.mark.parametrize(
    "text", ["", "200-14-03", "200-14-0300", "20014030", "200-14-03A", " 200-14-030", "200-14-030\n", "٢٠٠-14-030"]
)
def test_a_number_of_the_wrong_form_names_no_parcel(text: str) -> None:
    assert not exists(text)
    with pytest.raises(LookupError):
        parcel(text)


@given(parcel_ids)
def test_the_figures_of_a_parcel_agree_with_each_other(parcel_id: str) -> None:
    if not exists(parcel_id):
        return
    truth = parcel(parcel_id)
    assert truth == parcel(parcel_id)
    assert truth.total_value == truth.land_value + truth.improvement_value
    assert truth.total_due == truth.first_half_due + truth.second_half_due == truth.paid + truth.balance_due
    assert (truth.status == "PAID") == (truth.balance_due == 0)
    assert (truth.last_sale_date is None) == (truth.last_sale_price is None)
    assert [line.year for line in truth.history] == list(range(truth.tax_year - 1, truth.tax_year - 9, -1))


def test_every_choice_occurs() -> None:
    truths = [parcel(f"101-01-{item:03d}") for item in range(1000) if exists(f"101-01-{item:03d}")]
    for values in (
        *({truth.layout for truth in truths}, {truth.last_sale_date is None for truth in truths}),
        *(
            {truth.year_built is None for truth in truths},
            {truth.mailing_address == truth.situs_address for truth in truths},
        ),
        *({"&" in truth.owner for truth in truths}, {truth.owner.isascii() for truth in truths}),
    ):
        assert len(values) == 2
    assert {truth.status for truth in truths} == {"PAID", "HALF PAID", "UNPAID"}


def test_the_hash_is_long_enough_for_all_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    below = _SeededDraws.below

    def watched(draws: _SeededDraws, limit: int) -> int:
        drawn = below(draws, limit)
        left.append(draws._left)
        return drawn

    monkeypatch.setattr(_SeededDraws, "below", watched)
    for item in range(1000):
        if exists(f"102-01-{item:03d}"):
            parcel(f"102-01-{item:03d}")
    assert min(left).bit_length() > 128
