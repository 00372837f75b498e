import pytest

pytest.register_assert_rewrite("swath.testing.contracts")  # so that a failed contract says which values it saw
