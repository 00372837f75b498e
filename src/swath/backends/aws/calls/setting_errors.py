"""What botocore raises when the settings of AWS make no sense, and what a person does about it. errors.py asks here."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from botocore import exceptions as boto

from swath.domain.errors import UserError

__all__ = ["check_port", "wrong_setting"]

_PLACES: Final = {
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


def wrong_setting(service: str, error: Exception) -> UserError | None:
    """What to tell, if it is a setting that is wrong."""
    if isinstance(error, _NO_CREDENTIALS):
        return UserError(f"no AWS credentials: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE")
    # An endpoint that is no URL is a plain ValueError; a certificate that does not hold is one too, but may pass.
    if isinstance(error, _BAD_SETTING) or type(error) is ValueError:
        return UserError(f"AWS is not set up: {str(error).rstrip('.')}; {_cure(service, error)}")
    return None


def _cure(service: str, error: Exception) -> str:
    if isinstance(error, boto.NoRegionError):
        return f"set AWS_DEFAULT_REGION, or name it in the URL: {_PLACES[service]}?region=NAME"
    if isinstance(error, boto.ProfileNotFound):
        return "correct AWS_PROFILE, or add that profile to the AWS config file"
    if isinstance(error, boto.BotoCoreError):
        return "check the AWS variables and the AWS config file"
    return f"correct AWS_ENDPOINT_URL_{service.upper()} or AWS_ENDPOINT_URL, such as http://HOST:PORT"
