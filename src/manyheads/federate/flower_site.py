"""A message that Flower has carried to a site, and the site's answer."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from manyheads.core.errors import UserError, first_line
from manyheads.federate.agent import Agent
from manyheads.federate.kit import Kit
from manyheads.federate.wire import Message as Told

__all__ = ["answer", "carried", "content_of"]

NAME, BYTES = "manyheads", "bytes"


def carried(data: bytes) -> RecordDict:
    """Bytes as Flower carries them; as an array, which it divides if it is large."""
    return RecordDict({NAME: ArrayRecord({BYTES: Array(np.frombuffer(data, np.uint8))})})


def content_of(message: Message) -> bytes:
    """The bytes in a message."""
    try:
        record = message.content.array_records[NAME]
        return record[BYTES].numpy().tobytes()
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"not a message of manyheads: {first_line(error)}") from None


def answer(message: Message, context: Context) -> Message:
    """Answer a message, or say why not; every message and what left is in the site's audit log."""
    kit = Kit(Path(os.environ["MANYHEADS_KIT"]))
    site, audit = kit.read(), kit.audit_log
    data = content_of(message)
    facts: dict[str, object] = {}
    try:
        told = Told.from_bytes(data)
        facts = {name: told.facts.get(name) for name in ("action", "run", "exchange")}
        audit.message("asked", data, flower_run=message.metadata.run_id, **facts)
        agent = Agent(site.name, Path(os.environ["MANYHEADS_TABLE"]), site.policy, kit.path)
        reply = agent.answer(told).to_bytes()
    except UserError as error:
        reply = Told({"error": str(error)}).to_bytes()
        audit.write("refused", why=str(error.__cause__ or error), told=str(error), **facts)
    except Exception as error:
        reply = Told({"error": f"{type(error).__name__}: {first_line(error)}"}).to_bytes()
        audit.write("failed", why=f"{type(error).__name__}: {error}", **facts)
    audit.message("left", reply, **facts)
    return Message(carried(reply), reply_to=message)
