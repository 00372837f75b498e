"""What AWS answers in place of a result is sorted: what may pass, what a person must mend, what is an answer."""

import ssl
from typing import Any

import pytest
from botocore import exceptions as boto

from swath.backends.aws.client.errors import (
    QueueMissing,
    TableMissing,
    as_declined,
    is_transient,
    may_have_applied,
    translate_error,
)
from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor


def refused(code: str, message: str = "why", status: int = 400, **more: Any) -> boto.ClientError:
    said: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return boto.ClientError(said, "PutItem")


PASSING = [
    (refused("ThrottlingException"), False),
    (refused("ProvisionedThroughputExceededException"), False),
    (refused("RequestLimitExceeded"), False),
    (refused("RequestThrottled"), False),
    (refused("SlowDown", status=503), False),
    (refused("TransactionConflictException"), False),
    (refused("TransactionInProgressException"), False),
    (refused("InternalServerError", status=500), True),
    (refused("Unheard", status=502), True),
    (refused("Unheard", status=429), False),
    (refused("TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}]), False),
    (refused("TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError"}]), False),
    (boto.EndpointConnectionError(endpoint_url="http://there"), False),
    (boto.ConnectTimeoutError(endpoint_url="http://there"), False),
    (boto.ReadTimeoutError(endpoint_url="http://there"), True),
    (boto.ConnectionClosedError(endpoint_url="http://there"), True),
    (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), True),
    (TimeoutError(), True),
    (ConnectionResetError(), True),
]


@pytest.mark.req("Q3", "Z9")
@pytest.mark.parametrize(("error", "in_doubt"), PASSING, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("service", "waiting_for"), [("dynamodb", WaitingFor.STORE), ("sqs", WaitingFor.QUEUE)])
def test_trouble_that_may_pass_says_what_is_waited_for(
    error: Exception, in_doubt: bool, service: str, waiting_for: WaitingFor
) -> None:
    assert is_transient(error)
    assert as_declined(error) is None
    assert may_have_applied(error) is in_doubt
    told = translate_error(service, "put_item", {}, "eu-west-1", error)
    assert isinstance(told, StoreUnavailable)
    assert told.waiting_for is waiting_for


MISTAKES: list[tuple[Exception, type[SwathError], str]] = [
    (boto.NoCredentialsError(), UserError, "AWS_ACCESS_KEY_ID"),
    (
        boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        UserError,
        "AWS_SECRET_ACCESS_KEY",
    ),
    (
        boto.NoRegionError(),
        UserError,
        "; set AWS_DEFAULT_REGION, or name it in the URL: SWATH_STORE=dynamodb://TABLE?re",
    ),
    (boto.ProfileNotFound(profile="gone"), UserError, "(gone) could not be found; correct AWS_PROFILE"),
    (ValueError("Invalid endpoint: foo"), UserError, "Invalid endpoint: foo; correct AWS_ENDPOINT_URL_DYNAMODB or"),
    (refused("UnrecognizedClientException"), UserError, "check them"),
    (refused("ExpiredTokenException"), UserError, "credentials"),
    (refused("AccessDeniedException", "not authorized to perform: dynamodb:PutItem"), UserError, "dynamodb:PutItem"),
    (refused("InvalidSignatureException", "Signature expired: 1 is now earlier than 2"), UserError, "clock"),
    (refused("RequestTimeTooSkewed"), UserError, "clock"),
    (refused("ResourceNotFoundException"), TableMissing, "'jobs' in region eu-west-1; `swath aws init`"),
    (refused("QueueDoesNotExist"), QueueMissing, "swath aws init"),
    (refused("AWS.SimpleQueueService.NonExistentQueue"), QueueMissing, "swath aws init"),
    (refused("ValidationException", "Item size has exceeded the maximum allowed size"), BadInput, "size"),
    (refused("ValidationException", "Invalid table/index name. Names must be"), BadInput, "'jobs' cannot be the name"),
    (refused("ValidationException", "Query condition missed key schema element: id"), Conflict, "is somebody else's"),
    (refused("ValidationException", "The provided key element does not match the schema"), Conflict, "'jobs' is some"),
    (refused("ValidationException", "no such\nthing"), SwathError, "no such thing"),
]


@pytest.mark.req("Q3", "Z5")
@pytest.mark.parametrize(("error", "kind", "told"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_a_mistake_is_told_in_one_line_that_says_what_to_do(
    error: Exception, kind: type[SwathError], told: str
) -> None:
    assert not is_transient(error)
    found = translate_error("dynamodb", "put_item", {"TableName": "jobs"}, "eu-west-1", error)
    assert type(found) is kind
    assert told in str(found)
    assert "\n" not in str(found)


@pytest.mark.req("Z5")
def test_a_certificate_that_does_not_hold_is_no_wrong_endpoint() -> None:
    found = translate_error("dynamodb", "put_item", {}, "eu-west-1", ssl.SSLCertVerificationError("self-signed"))
    assert isinstance(found, StoreUnavailable)  # though Python makes it a ValueError


@pytest.mark.req("Z1")
def test_a_condition_that_did_not_hold_is_an_answer_and_no_trouble() -> None:
    for error in (
        refused("ConditionalCheckFailedException"),
        refused(
            "TransactionCanceledException", CancellationReasons=[{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]
        ),
        refused(
            "TransactionCanceledException",
            CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}],
        ),
    ):
        assert as_declined(error) is not None
        assert not is_transient(error)
