import pytest

pytest.register_assert_rewrite("tests.contract.suites")  # so that a failed contract says which values it saw
