"""The AWS services on this machine, for tests and trials: DynamoDB Local, SeaweedFS for S3, ministack for SQS.

`make test` installs them; `python -m swath.testing.aws_servers` runs them for a person. Tests share one set: keeper.py.
"""

from swath.testing.aws_servers.endpoints import Endpoints
from swath.testing.aws_servers.keeper import Shared, shared_servers
from swath.testing.aws_servers.servers import Servers, running_servers

__all__ = ["Endpoints", "Servers", "Shared", "running_servers", "shared_servers"]
