"""The keys of all rows in the store's table: one function for each kind of row.

Everything of a job is named by its number, which is never used again, so that a late write can only touch what is
gone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from swath.backends.aws.client.rows import Key

if TYPE_CHECKING:
    import msgspec

__all__ = [
    "ACTIVE",
    "CHUNK_ITEMS",
    "CLOCK",
    "COUNTERS",
    "DEMAND",
    "GONE",
    "HELD",
    "JOBS",
    "KEPT",
    "KEYS",
    "PART_BYTES",
    "WEBHOOKS",
    "ReturnedKind",
    "batch_key",
    "block_of",
    "chunk_of",
    "chunks_of_block",
    "due_partitions",
    "end_key",
    "held_key",
    "ids_key",
    "input_key",
    "items_partition",
    "job_row_key",
    "job_spec_key",
    "kept_key",
    "listed_key",
    "load_key",
    "manifest_key",
    "name_key",
    "read_item_key",
    "retry_key",
    "retry_partition",
    "returned_key",
    "returned_partition",
    "returned_range",
    "split_into_bodies",
    "webhook_due_key",
    "webhook_key",
]

CHUNK_ITEMS: Final = 100
_BLOCK_CHUNKS: Final = 100  # so that a large job is spread over many partitions
PART_BYTES: Final = 300_000  # of a body before it is compressed; a row has 400 KB at most

COUNTERS: Final = Key("fleet", "counters")
CLOCK: Final = Key("fleet", "clock")
JOBS: Final = "jobs"  # every job but for scrapes on demand
DEMAND: Final = "demand"  # scrapes on demand
ACTIVE: Final = "active"  # those that have not ended, or are being deleted
KEPT: Final = "kept"  # those that have ended and are deleted after a while
HELD: Final = "held/"
GONE: Final = "gone"  # numbers of jobs of which rows may be left
KEYS: Final = "keys"  # that controllers accept
WEBHOOKS: Final = "webhook/"
_DUE_PARTITIONS: Final = 4  # that share the traffic of webhooks; each is asked by whoever looks for some


def chunk_of(seq: int) -> int:
    """The chunk that an item belongs to."""
    return (seq - 1) // CHUNK_ITEMS


def block_of(chunk: int) -> int:
    """The block that a chunk belongs to."""
    return chunk // _BLOCK_CHUNKS


def chunks_of_block(block: int) -> tuple[int, int]:
    """Its first and its last chunk."""
    return block * _BLOCK_CHUNKS, (block + 1) * _BLOCK_CHUNKS - 1


def name_key(job_id: str) -> Key:
    """Holds the number of the job that has the id now."""
    return Key(f"name/{job_id}", "name")


def job_row_key(number: int) -> Key:
    """See head.py."""
    return Key(f"job/{number}", "head")


def job_spec_key(number: int) -> Key:
    """See orders.py."""
    return Key(f"job/{number}", "order")


def manifest_key(number: int, nonce: str, part: int) -> Key:
    """A part of the manifest, true when the head names its nonce."""
    return Key(f"job/{number}", f"manifest/{nonce}/{part:06d}")


def load_key(number: int, digest: str) -> Key:
    """Where a load began; `digest` is that of its key."""
    return Key(f"job/{number}", f"load/{digest}")


def webhook_key(number: int, generation: int, webhook_id: str) -> Key:
    """A webhook of a job."""
    return Key(f"job/{number}", f"{WEBHOOKS}{generation:05d}#{webhook_id}")


def due_partitions() -> list[str]:
    """Webhooks that are to be sent, by when."""
    return [f"due/{shard}" for shard in range(_DUE_PARTITIONS)]


def webhook_due_key(number: int, due: float, generation: int, webhook_id: str) -> Key:
    """Says that a webhook is to be sent; `due` in Unix seconds."""
    partition = due_partitions()[number % _DUE_PARTITIONS]
    return Key(partition, f"{max(0, int(due * 1_000_000)):018d}#{number}#{generation:05d}#{webhook_id}")


def listed_key(partition: str, number: int) -> Key:
    """A job in one of the lists."""
    return Key(partition, f"{number:012d}")


def kept_key(due: float, number: int) -> Key:
    """A job in the order in which they are to be deleted; `due` in Unix seconds."""
    return Key(KEPT, f"{int(due):012d}#{number:012d}")


def items_partition(number: int, block: int) -> str:
    """Inputs and ends of a block of chunks."""
    return f"items/{number}/{block}"


def input_key(number: int, chunk: int, batch: int, mark: str, part: int) -> Key:
    """Inputs of a chunk that one batch brought; true when the batch was committed under that mark."""
    return Key(items_partition(number, block_of(chunk)), f"{chunk:010d}#i#{batch:08d}#{mark}#{part:03d}")


def end_key(number: int, chunk: int, generation: int, fence: int, row: int) -> Key:
    """Ends in a chunk that one commit brought."""
    return Key(items_partition(number, block_of(chunk)), f"{chunk:010d}#e#{generation:05d}#{fence:015d}#{row:06d}")


class ItemKey(NamedTuple):
    """What the key of an input or end row says: batch and mark, or generation and fence."""

    chunk: int
    kind: str
    first: int
    second: str


def read_item_key(s: str) -> ItemKey:
    """The reverse of `input_key` and `end_key`."""
    chunk, kind, first, second, _ = s.split("#")
    return ItemKey(int(chunk), kind, int(first), second)


def batch_key(number: int, batch: int) -> Key:
    """What became of a batch of the load."""
    return Key(f"batches/{number}", f"{batch:08d}")


def ids_key(number: int, batch: int, mark: str, part: int) -> Key:
    """Hashes of the ids that a batch brought."""
    return Key(f"ids/{number}", f"{batch:08d}#{mark}#{part:03d}")


def retry_partition(number: int, block: int) -> str:
    """What retries have selected in a block of chunks."""
    return f"again/{number}/{block}"


def retry_key(number: int, chunk: int, generation: int, nonce: str) -> Key:
    """The items of a chunk that a generation runs again; true when the head names the nonce."""
    return Key(retry_partition(number, block_of(chunk)), f"{generation:05d}#{nonce}#{chunk:010d}")


def returned_partition(number: int) -> str:
    """Items that came back or were handed out again."""
    return f"back/{number}"


class ReturnedKind(StrEnum):
    """What is known of an item that came back, in the order of the rows."""

    SUSPECT = "a"
    BEGUN = "b"
    UNTRIED = "c"


def returned_key(number: int, bucket: int, kind: ReturnedKind, nonce: str) -> Key:
    """Items of a kind that came back and are due in that bucket."""
    return Key(returned_partition(number), f"{bucket:012d}#{kind}#{nonce}")


def returned_range(number: int, bucket: int, first: ReturnedKind, last: ReturnedKind) -> tuple[Key, Key]:
    """Between these are all rows of a bucket whose kind is one of these or between them."""
    return returned_key(number, bucket, first, ""), returned_key(number, bucket, last, "~")


def held_key(number: int, fence: int) -> Key:
    """What is known of items that came back before, while a lease holds them."""
    return Key(returned_partition(number), f"{HELD}{fence:015d}")


def split_into_bodies(encoder: msgspec.msgpack.Encoder, entries: list[object]) -> list[tuple[list[object], bytes]]:
    """Entries in their order, in as few bodies as a row can hold. A single one may still be too large."""
    body = encoder.encode(entries)
    if len(body) <= PART_BYTES or len(entries) == 1:
        return [(entries, body)]
    half = len(entries) // 2
    return split_into_bodies(encoder, entries[:half]) + split_into_bodies(encoder, entries[half:])
