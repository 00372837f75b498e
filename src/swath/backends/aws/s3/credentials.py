"""Gives obstore the credentials and endpoints that botocore finds, so that both clients behave alike.

Environment, profiles, container and instance roles, and endpoints are all looked up as for DynamoDB and SQS.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import botocore.session
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError, NoCredentialsError

from swath.backends.aws.client.client import SERVICE_MODELS
from swath.backends.aws.client.errors import check_port, translate_error
from swath.ports.clock import Clock

if TYPE_CHECKING:
    from obstore.store import S3Credential

__all__ = ["CredentialChain"]

# obstore asks again 5 minutes before the end; botocore renews a role at the latest 10 minutes before its real one.
_VALID_SECONDS: Final = 600.0
_GLOBAL_REGION: Final = "us-east-1"


class CredentialChain:
    """What obstore calls for credentials, from threads of its own; blocks while a role is asked for."""

    def __init__(self, clock: Clock, region: str | None = None) -> None:
        self._clock = clock
        self._region = region
        self._session = botocore.session.get_session()
        self._session.register_component("data_loader", SERVICE_MODELS)
        self._asking = threading.Lock()
        self.trouble: BotoCoreError | None = None  # why there are none: obstore would pass it on as text only

    def endpoint(self) -> tuple[str, str]:
        """The URL of S3 and its region. Blocks a little. Raises BotoCoreError and UserError for a wrong setting."""
        try:
            client = self._session.create_client("s3", region_name=self._region)
            check_port(client.meta.endpoint_url)
        except BotoCoreError:
            raise
        except ValueError as error:  # an endpoint that is no URL
            raise translate_error("s3", "open", {}, self._region or _GLOBAL_REGION, error) from error
        region = self._region or str(self._session.get_config_variable("region") or _GLOBAL_REGION)
        return str(client.meta.endpoint_url), region

    def client(self, seconds: float) -> Any:
        """A client of botocore, for what obstore cannot do; no request of it takes much longer. Blocks a little."""
        config = Config(connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 3})
        _, region = self.endpoint()
        return self._session.create_client("s3", region_name=region, config=config)

    def __call__(self) -> S3Credential:
        """The credentials of this moment."""
        with self._asking:
            try:
                found = self._session.get_credentials()
                frozen = None if found is None else found.get_frozen_credentials()
                if frozen is None or not frozen.access_key or not frozen.secret_key:
                    raise NoCredentialsError
            except BotoCoreError as error:
                self.trouble = error
                raise
            self.trouble = None
        until = None
        if isinstance(found, RefreshableCredentials):
            until = datetime.fromtimestamp(self._clock.now() + _VALID_SECONDS, UTC)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": until,
        }

    def link(self, bucket: str, key: str, asked: Mapping[str, str], seconds: int) -> str:
        """A signed address of an object, good for so long; `asked` is its query, signed with it. Blocks a little.

        obstore signs addresses too, but none that say how S3 is to answer.
        """
        endpoint, region = self.endpoint()
        ours = self()
        credentials = ReadOnlyCredentials(ours["access_key_id"], ours["secret_access_key"], ours.get("token"))
        url = f"{endpoint.rstrip('/')}/{bucket}/{quote(key, safe='/~')}?{urlencode(asked, quote_via=quote)}"
        request = AWSRequest(method="GET", url=url)
        S3SigV4QueryAuth(credentials, "s3", region, expires=seconds).add_auth(request)
        return str(request.url)
