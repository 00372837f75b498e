"""AWS services on this machine: DynamoDB Local, SeaweedFS for S3, ministack for SQS.

`make test` installs them; `python -m harness.fakes.aws` runs them by hand. All processes of a test run share one
set.
"""

from harness.fakes.aws.endpoints import Endpoints
from harness.fakes.aws.servers import Servers, running_servers
from harness.fakes.aws.shared_servers import SharedServers, shared_servers

__all__ = ["Endpoints", "Servers", "SharedServers", "running_servers", "shared_servers"]
