"""Imported by the process that commands are forked from: it reads what AWS's services look like, once for all."""

from __future__ import annotations

import botocore.session

from swath.backends.aws.client.client import SERVICE_MODELS

_session = botocore.session.get_session()
_session.register_component("data_loader", SERVICE_MODELS)
for _service in ("dynamodb", "s3", "sqs"):
    _session.create_client(_service, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
