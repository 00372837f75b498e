"""The outbox as the model of a store sees it (model.py): every webhook that was put in and not removed with its job."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from swath.domain.webhook import Webhook

__all__ = ["ModelOutbox"]


@dataclass
class ModelOutbox:
    """Webhooks by job and generation, as the store last showed them. Which revision follows is the store's affair."""

    words: dict[tuple[str, int], Webhook] = field(default_factory=dict)

    def put(self, word: Webhook) -> None:
        """With the end of a job."""
        assert (word.job_id, word.generation) not in self.words
        self.words[word.job_id, word.generation] = word

    def of(self, job_id: str) -> list[Webhook]:
        """Those of one job, the oldest first."""
        return [word for (owner, _), word in sorted(self.words.items()) if owner == job_id]

    def take(self, taken: list[Webhook], now: float, hold_seconds: float, limit: int) -> None:
        """They were handed out: the longest due, each as it was, but for when it is due again."""
        due = sorted(word.due_at for word in self.words.values() if word.due_at is not None and word.due_at <= now)
        before = [self.words[word.job_id, word.generation] for word in taken]
        assert [word.due_at for word in before] == due[:limit], "the wrong webhooks were handed out"
        assert len({word.webhook_id for word in taken}) == len(taken)
        for was, word in zip(before, taken, strict=True):
            self._change(was, word, due_at=now + hold_seconds)

    def note(self, known: Webhook, shown: Webhook, note: Webhook) -> None:
        """What is known of it was replaced by the note."""
        self._change(known, shown, state=note.state, due_at=note.due_at, tries=note.tries, deliveries=note.deliveries)

    def _change(self, was: Webhook, word: Webhook, **changed: object) -> None:
        assert word.revision > was.revision, "a change that nobody can tell"
        assert word == msgspec.structs.replace(was, revision=word.revision, **changed)
        self.words[word.job_id, word.generation] = word

    def forget(self, job_id: str) -> None:
        """The job is gone."""
        self.words = {key: word for key, word in self.words.items() if key[0] != job_id}
