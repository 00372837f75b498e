"""Z10: whoever changes what a row of the table holds is reminded that older processes must not read it."""

from pathlib import Path

import pytest

from tests.integration.aws.stored_rows import description

KNOWN = Path(__file__).parent / "stored_rows.txt"


WHAT_TO_DO = """
What rows of the DynamoDB table hold has changed. If their format is in a release, raise FORMAT (and SITE_FORMAT for
what is known of sites) in backends/aws/client/rows.py, so that older processes refuse such rows instead of writing
them back without the new fields, and see that rows of the older format can be read. Then write the list of fields anew:
python -m tests.integration.aws.stored_rows > tests/integration/aws/stored_rows.txt
"""


@pytest.mark.req("Z10")
def test_what_rows_hold_changes_only_together_with_their_format() -> None:
    assert description() == KNOWN.read_text(encoding="utf-8"), WHAT_TO_DO
