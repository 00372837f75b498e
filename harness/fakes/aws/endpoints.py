"""Endpoints: where the servers listen and who may speak to them. Made by servers.py, sent to tests by keeper.py."""

from __future__ import annotations

import shlex
from typing import Final

import msgspec

__all__ = ["BUCKET", "CREDENTIALS", "DISTURBING", "REGION", "Endpoints"]

REGION: Final = "eu-central-1"
BUCKET: Final = "swath-test"
# DynamoDB Local wants letters and digits; SeaweedFS checks the signatures made with them.
CREDENTIALS: Final = ("SWATHTESTKEY", "swath-test-secret")

# What a person may have set for the real AWS, and what must not lead tests there.
DISTURBING: Final = (
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Plain values, and the same as the environment of a process that is to use them."""

    dynamodb_url: str
    sqs_url: str
    s3_url: str
    region: str = REGION
    access_key: str = CREDENTIALS[0]
    secret_key: str = CREDENTIALS[1]
    bucket: str = BUCKET

    @property
    def environment(self) -> dict[str, str]:
        """For botocore and obstore; DISTURBING must be unset besides."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb_url,
            "AWS_ENDPOINT_URL_SQS": self.sqs_url,
            "AWS_ENDPOINT_URL_S3": self.s3_url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def exports(self) -> str:
        """The environment as lines for a shell."""
        return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in self.environment.items())
