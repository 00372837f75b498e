"""A worker that uploads packs in parts until it is killed: `python -m tests.integration.aws.uploader URL JOB FENCE`."""

from __future__ import annotations

import asyncio
import sys

from swath.backends.aws.s3.results import S3Results
from swath.backends.clock import SystemClock
from swath.ports.result_storage import PackAppend

PACK_BYTES = 40 << 20


async def main(url: str, job_id: str, fence: int) -> None:
    storage = S3Results.open(url, SystemClock(), multipart_bytes=1 << 20)
    await storage.open_lease(job_id, fence)
    while True:
        await storage.append(job_id, fence, {"warc.gz": PackAppend(b"", bytes(PACK_BYTES))})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
