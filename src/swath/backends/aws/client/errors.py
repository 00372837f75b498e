"""Sorts and translates the errors of botocore: what to retry, what may have been applied, and what to tell the caller.

The one place that knows botocore's errors; wrong settings of AWS are named with what to do about them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor

__all__ = [
    "AWS_ERRORS",
    "QueueMissing",
    "RequestDeclined",
    "TableMissing",
    "as_declined",
    "check_port",
    "foreign_table_error",
    "is_transient",
    "may_have_applied",
    "setting_error",
    "translate_error",
]

_SETTINGS: Final = {
    "dynamodb": "SWATH_STORE=dynamodb://TABLE",
    "sqs": "SWATH_QUEUE=sqs://NAME",
    "s3": "SWATH_RESULTS=s3://BUCKET/PREFIX",
}
_NO_CREDENTIALS: Final = (
    boto.NoAuthTokenError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.SSOError,
    boto.LoginError,
    boto.TokenRetrievalError,
)
_BAD_SETTING: Final = (
    boto.BaseEndpointResolverError,
    boto.ConfigNotFound,
    boto.ConfigParseError,
    boto.EndpointProviderError,
    boto.InvalidConfigError,
    boto.ProfileNotFound,
    boto.UnknownRegionError,
    boto.ValidationError,
)


def check_port(endpoint: str) -> None:
    """Raises ValueError for a port that cannot be: botocore does so too, but with every request and not once."""
    _ = urlsplit(endpoint).port


def setting_error(service: str, error: Exception) -> UserError | None:
    """What to tell, if it is a setting that is wrong."""
    if isinstance(error, _NO_CREDENTIALS):
        return UserError(f"no AWS credentials: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE")
    # An endpoint that is no URL is a plain ValueError; a certificate that does not hold is one too, but may pass.
    if isinstance(error, _BAD_SETTING) or type(error) is ValueError:
        return UserError(f"AWS is not set up: {str(error).rstrip('.')}; {_remedy(service, error)}")
    return None


def _remedy(service: str, error: Exception) -> str:
    if isinstance(error, boto.NoRegionError):
        return f"set AWS_DEFAULT_REGION, or name it in the URL: {_SETTINGS[service]}?region=NAME"
    if isinstance(error, boto.ProfileNotFound):
        return "correct AWS_PROFILE, or add that profile to the AWS config file"
    if isinstance(error, boto.BotoCoreError):
        return "check the AWS variables and the AWS config file"
    return f"correct AWS_ENDPOINT_URL_{service.upper()} or AWS_ENDPOINT_URL, such as http://HOST:PORT"


Params = Mapping[str, Any]

WAITING_FOR: Final = {"dynamodb": WaitingFor.STORE, "sqs": WaitingFor.QUEUE, "s3": WaitingFor.DISK}
_NAMES: Final = {"dynamodb": "DynamoDB", "sqs": "SQS", "s3": "S3"}

# Never carried out: asking again cannot do anything twice.
_THROTTLED: Final = frozenset({
    "LimitExceededException",
    "OverLimit",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "TransactionConflictException",
})  # fmt: skip
_TRANSIENT: Final = _THROTTLED | {
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "TransactionInProgressException",
}
_NOT_REACHED: Final = (
    boto.ConnectTimeoutError,
    boto.CredentialRetrievalError,
    boto.EndpointConnectionError,
    boto.ProxyConnectionError,
)
_LOST: Final = (
    OSError,  # a TimeoutError is one
    ResponseParserError,
    boto.ChecksumError,
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.IncompleteReadError,
)
# All that a request may raise, but for bugs.
AWS_ERRORS: Final = (boto.BotoCoreError, boto.ClientError, ResponseParserError, OSError)

# Answers that a caller waits for, rather than trouble.
_DECLINED: Final = frozenset({
    "ConditionalCheckFailedException",
    "InvalidParameterValue",
    "MessageNotInflight",
    "QueueNameExists",
    "ReceiptHandleIsInvalid",
    "ResourceInUseException",
    "TransactionCanceledException",
})  # fmt: skip
_REFUSED: Final = frozenset({
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
})  # fmt: skip
_OTHER_KEYS: Final = re.compile(
    r"missed key schema|match the schema|key condition not supported|conditions on the keys|required keys|"
    r"Missing the key|Type mismatch for key"
)
_MESSAGE_CHARS: Final = 300
_SKEWED: Final = frozenset({"RequestExpired", "RequestTimeTooSkewed"})
_NO_QUEUE: Final = frozenset({"QueueDoesNotExist", "QueueDeletedRecently"})


class RequestDeclined(SwathError):
    """AWS did not do it, for a reason that its caller knows what to make of.

    `maybe_done` says that an earlier try of the same call had no answer, so that it may have been carried out.
    """

    def __init__(self, code: str, message: str, answer: Params) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.answer = answer
        self.maybe_done = False


class TableMissing(UserError):
    """There is no such table in this account and region."""


class QueueMissing(StoreUnavailable):
    """There is no such queue; somebody may make it anew at any time, and nothing is lost meanwhile."""


def as_declined(error: Exception) -> RequestDeclined | None:
    """The answer that this error is, if it is one."""
    code = _code(error)
    if code not in _DECLINED or not isinstance(error, boto.ClientError):
        return None
    if code == "TransactionCanceledException" and not _failed_a_condition(error):
        return None
    return RequestDeclined(code, _message(error), error.response)


def is_transient(error: Exception) -> bool:
    """Whether the same request may well succeed a little later."""
    if isinstance(error, boto.ClientError):
        code = _code(error)
        if code == "TransactionCanceledException":
            return not _failed_a_condition(error) and "ValidationError" not in _reasons(error)
        return code in _TRANSIENT or _status(error) in {408, 429} or _status(error) >= 500
    return isinstance(error, (*_NOT_REACHED, *_LOST))


def may_have_applied(error: Exception) -> bool:
    """Whether a change may have been made although this came in place of an answer."""
    if isinstance(error, boto.ClientError):
        return _code(error) not in _THROTTLED and _status(error) >= 500
    return not isinstance(error, _NOT_REACHED)


def translate_error(service: str, operation: str, params: Params, region: str, error: Exception) -> SwathError:
    """What to raise for it. StoreUnavailable for whatever may pass; a UserError tells in one line what to do."""
    what = f"{_NAMES.get(service, service)} ({operation})"
    if (mistake := setting_error(service, error)) is not None:
        return mistake
    if is_transient(error):
        return StoreUnavailable(
            f"{what} does not answer: {_describe(error)}", WAITING_FOR.get(service, WaitingFor.STORE)
        )
    if isinstance(error, boto.ClientError):
        return _refusal(what, params, region, error)
    return SwathError(f"{what} failed: {type(error).__name__}: {error}")


def foreign_table_error(table: str, keys: str) -> Conflict:
    """For a table that others made: nothing of ours may be written into it, and it must not be removed."""
    return Conflict(f"the table {table} is somebody else's: its keys are {keys}; name another one")


def _refusal(what: str, params: Params, region: str, error: boto.ClientError) -> SwathError:
    code, message = _code(error), _message(error)
    if code in _SKEWED or "Signature expired" in message or "Signature not yet current" in message:
        return UserError(f"{what} refuses the time of this machine; set its clock right: {message}")
    if code in _REFUSED:
        return UserError(f"{what} refuses these credentials ({code}: {message}); check them, and their policy")
    if code == "ResourceNotFoundException":
        return TableMissing(f"there is no table {_table(params)} in region {region}; `swath aws init` makes it")
    if code.rpartition(".")[2] in _NO_QUEUE or code.endswith("NonExistentQueue"):
        return QueueMissing(
            f"there is no queue {_queue(params)} in region {region}; `swath aws init`", WaitingFor.QUEUE
        )
    if code == "ValidationException" and "size" in message:
        return BadInput(f"{what} takes no row this large: {message}")
    if code == "ValidationException" and message.startswith("Invalid table"):
        return BadInput(f"{_table(params)} cannot be the name of a table: {message}")
    if code == "ValidationException" and _OTHER_KEYS.search(message):
        return foreign_table_error(_table(params), "not ours")
    return SwathError(f"{what} refused: {code}: {message}")


def _describe(error: Exception) -> str:
    if isinstance(error, boto.ClientError):
        return f"{_code(error)}: {', '.join(sorted(_reasons(error))) or _message(error)}"
    return str(error) or type(error).__name__


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def _message(error: boto.ClientError) -> str:
    return " ".join(str(error.response.get("Error", {}).get("Message", "")).split())[:_MESSAGE_CHARS]


def _status(error: boto.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _reasons(error: boto.ClientError) -> set[str]:
    answer: Params = error.response
    return {str(reason.get("Code")) for reason in answer.get("CancellationReasons", ())} - {"None"}


def _failed_a_condition(error: boto.ClientError) -> bool:
    return "ConditionalCheckFailed" in _reasons(error)


def _table(params: Params) -> str:
    named = params.get("TableName") or next(iter(params.get("RequestItems", ())), None)
    for action in params.get("TransactItems", ()):
        named = named or next(iter(action.values()))["TableName"]
    return repr(named)


def _queue(params: Params) -> str:
    return repr(params.get("QueueName") or str(params.get("QueueUrl", "")).rpartition("/")[2])
