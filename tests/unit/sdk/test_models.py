from decimal import Decimal

import pytest
from pydantic import ValidationError

from swath import Input, Money, Output
from swath.sdk.models import explain


class Bill(Output):
    total: Money


class Asked(Input):
    parcel_id: str
    year: int = 2026


@pytest.mark.req("K2")
@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$1,234.50", "1234.50"),
        ("1234.5", "1234.5"),
        ("$0.00", "0.00"),
        (".75", "0.75"),
        ("$ 12", "12"),
        ("\xa0$1,000,000.01\n", "1000000.01"),
        ("-$5.00", "-5.00"),
        ("$-5.00", "-5.00"),
        ("\u22125", "-5"),
        ("($12.00)", "-12.00"),
        ("USD 7", "7"),
    ],
)
def test_money_is_read_as_sites_write_it(text: str, amount: str) -> None:
    assert Bill(total=text).total == Decimal(amount)
    assert Bill(total=text).model_dump(mode="json") == {"total": amount}


@pytest.mark.parametrize(
    "text", ["", "N/A", "$", "12,34", "1.2.3", "--5", "-$-5", "See Redemption Statement", "1e5", "nan"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is no amount of money"):
        Bill(total=text)


def test_amounts_that_are_numbers_already_stay_exact() -> None:
    assert Bill(total=Decimal("1.10")).total == Decimal("1.10")
    assert Bill(total=Decimal("1E+3")).model_dump(mode="json") == {"total": "1000"}


def test_input_ignores_other_columns_and_takes_numbers_for_text() -> None:
    asked = Asked.model_validate({"parcel_id": 20014030, "year": " 2025 ", "note": "x"})
    assert asked == Asked(parcel_id="20014030", year=2025)
    assert Asked.model_validate({"parcel_id": " 1 "}).parcel_id == "1"


def test_explanations_name_every_field_and_show_no_values() -> None:
    with pytest.raises(ValidationError) as raised:
        Asked.model_validate({"year": "secret"})
    told = explain(raised.value)
    assert told.startswith("parcel_id: Field required; year: ")
    assert "secret" not in told
