"""The engine's checkpoint saver over Django's ORM, and pruning.

Sync methods may be called from any thread; async ones go through the journal's group
commit, so that a checkpoint and the events around it share a transaction and an order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from channels.db import database_sync_to_async
from django.db import transaction
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.base import Checkpoint as EngineCheckpoint
from langgraph.checkpoint.base import CheckpointMetadata as EngineMetadata

from protoagent.journal.models import Checkpoint, CheckpointWrite
from protoagent.journal.writer import Effect, store, submit
from protoagent.runtime import leg

PRUNE_EVERY_STEPS = 8


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), str(configurable.get("checkpoint_ns", ""))


def _config(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


class DjangoSaver(BaseCheckpointSaver[str]):
    """Checkpoints as rows of the journal. Passes `langgraph-checkpoint-conformance`."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace = _place(config)
        rows = Checkpoint.objects.filter(thread=thread, namespace=namespace)
        if wanted := get_checkpoint_id(config):
            rows = rows.filter(checkpoint=wanted)
        row = rows.order_by("-checkpoint").first()
        return self._tuple(row) if row else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        rows = Checkpoint.objects.order_by("-checkpoint")
        if config is not None:
            configurable = config["configurable"]
            rows = rows.filter(thread=str(configurable["thread_id"]))
            if (namespace := configurable.get("checkpoint_ns")) is not None:
                rows = rows.filter(namespace=namespace)
            if wanted := get_checkpoint_id(config):
                rows = rows.filter(checkpoint=wanted)
        if before is not None and (upper := get_checkpoint_id(before)):
            rows = rows.filter(checkpoint__lt=upper)
        found = 0
        for row in rows.iterator(chunk_size=100):
            if filter and any(row.metadata.get(key) != value for key, value in filter.items()):
                continue
            if limit is not None and found >= limit:
                return
            found += 1
            yield self._tuple(row)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: EngineCheckpoint,
        metadata: EngineMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        with transaction.atomic():
            self._put_effect(config, checkpoint, metadata)()
        return _config(*_place(config), checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        with transaction.atomic():
            self._writes_effect(config, writes, task_id, task_path)()

    def delete_thread(self, thread_id: str) -> None:
        with transaction.atomic():
            forget(thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await database_sync_to_async(self.get_tuple)(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        def read() -> Sequence[CheckpointTuple]:
            return tuple(self.list(config, filter=filter, before=before, limit=limit))

        for found in await database_sync_to_async(read)():
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: EngineCheckpoint,
        metadata: EngineMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await store(effect=self._put_effect(config, checkpoint, metadata))
        return _config(*_place(config), checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await store(effect=self._writes_effect(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await database_sync_to_async(self.delete_thread)(thread_id)

    def _put_effect(
        self, config: RunnableConfig, checkpoint: EngineCheckpoint, metadata: EngineMetadata
    ) -> Effect:
        """A function that stores the checkpoint; serialised now, in the caller's order."""
        thread, namespace = _place(config)
        encoding, body = self.serde.dumps_typed(checkpoint)
        row = Checkpoint(
            thread=thread,
            namespace=namespace,
            checkpoint=checkpoint["id"],
            parent=str(config["configurable"].get("checkpoint_id") or ""),
            encoding=encoding,
            body=body,
            metadata=get_checkpoint_metadata(config, metadata),
        )

        def effect() -> None:
            Checkpoint.objects.bulk_create(
                [row],
                update_conflicts=True,
                unique_fields=["thread", "namespace", "checkpoint"],
                update_fields=["parent", "encoding", "body", "metadata"],
            )

        return effect

    def _writes_effect(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Effect:
        thread, namespace = _place(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        rows = []
        for position, (channel, value) in enumerate(writes):
            encoding, body = self.serde.dumps_typed(value)
            rows.append(
                CheckpointWrite(
                    thread=thread,
                    namespace=namespace,
                    checkpoint=checkpoint_id,
                    task=task_id,
                    task_path=task_path,
                    position=WRITES_IDX_MAP.get(channel, position),
                    channel=channel,
                    encoding=encoding,
                    body=body,
                )
            )
        # Ordinary writes of a task are final; special ones (interrupt, error) may be replaced.
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)

        def effect() -> None:
            if special:
                CheckpointWrite.objects.bulk_create(
                    rows,
                    update_conflicts=True,
                    unique_fields=["thread", "namespace", "checkpoint", "task", "position"],
                    update_fields=["channel", "encoding", "body"],
                )
            else:
                CheckpointWrite.objects.bulk_create(rows, ignore_conflicts=True)

        return effect

    def _tuple(self, row: Checkpoint) -> CheckpointTuple:
        writes = CheckpointWrite.objects.filter(
            thread=row.thread, namespace=row.namespace, checkpoint=row.checkpoint
        ).order_by("task_path", "task", "position")
        parent = _config(row.thread, row.namespace, row.parent) if row.parent else None
        return CheckpointTuple(
            config=_config(row.thread, row.namespace, row.checkpoint),
            checkpoint=self.serde.loads_typed((row.encoding, bytes(row.body))),
            metadata=row.metadata,
            parent_config=parent,
            pending_writes=[
                (w.task, w.channel, self.serde.loads_typed((w.encoding, bytes(w.body))))
                for w in writes
            ],
        )


class TurnSaver(DjangoSaver):
    """The saver of running turns.

    A turn is stored by its row from the start, so checkpoints begin with the first step
    that could not simply be done again: the one in which the model calls a tool. A turn
    without tools writes none. Older checkpoints of a turn are pruned on the way; nothing
    ever goes back to them.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if not leg.current.get().has_checkpoint:
            return None
        return await super().aget_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: EngineCheckpoint,
        metadata: EngineMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        here = leg.current.get()
        if here.persist:
            put = self._put_effect(config, checkpoint, metadata)
            prune = metadata.get("step", 0) % PRUNE_EVERY_STEPS == 0
            place = _place(config)

            def effect() -> None:
                put()
                if prune:
                    _prune(*place, keep=checkpoint["id"])

            await store(effect=effect, hold=here.hold)
        return _config(*_place(config), checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        here = leg.current.get()
        if here.persist:
            # Not awaited: the group commit keeps the order, and the ToolCall row already
            # holds what the task produced.
            effect = self._writes_effect(config, writes, task_id, task_path)
            submit(lazy=True, effect=effect, hold=here.hold)


def _prune(thread: str, namespace: str, *, keep: str) -> None:
    place = {"thread": thread, "namespace": namespace}
    Checkpoint.objects.filter(**place).exclude(checkpoint=keep).delete()
    CheckpointWrite.objects.filter(**place).exclude(checkpoint=keep).delete()


def forget(thread: str) -> None:
    """No checkpoint of this turn is left. Inside a transaction of the caller."""
    CheckpointWrite.objects.filter(thread=thread).delete()
    Checkpoint.objects.filter(thread=thread).delete()
