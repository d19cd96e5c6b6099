"""The coordinator's side of messages: to all sites that are there, with a deadline, and every reply checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from manyheads.core.errors import UserError
from manyheads.core.settings import as_dict
from manyheads.federate.audit import Audit
from manyheads.federate.rules import Action
from manyheads.federate.study import Study
from manyheads.federate.wire import PROTOCOL, Message

__all__ = ["Carrier", "Link", "Replies"]

POLL = 2.0
"""seconds between looks for sites that are not there yet"""


class Carrier(Protocol):
    """Carries bytes to sites and back."""

    def present(self) -> Sequence[str]:
        """The sites that are connected."""

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes | str]:
        """The replies that came in time; text in place of one says why there is none."""


@dataclass(frozen=True)
class Replies:
    """What sites answered, and why others did not."""

    good: dict[str, Message]
    missing: dict[str, str]


@dataclass
class Link:
    """Sends messages of one run of a study, and checks what comes back."""

    study: Study
    carrier: Carrier
    audit: Audit
    run: str
    say: Callable[[str], None] = lambda words: None

    def gather(self) -> list[str]:
        """The sites that are there; all of them are waited for, for a while, and the quorum for longer."""
        rules, sites, start = self.study.rules, self.study.sites, time.monotonic()
        while True:
            there = [site for site in sites if site in self.carrier.present()]
            waited = time.monotonic() - start
            if len(there) == len(sites) or (waited >= rules.gather and len(there) >= rules.min_sites):
                return there
            if waited >= max(rules.wait, rules.gather):
                raise UserError(
                    f"{len(there)} of {len(sites)} sites are there after {waited:.0f} s",
                    where="min_sites",
                    given=rules.min_sites,
                    fix="start the sites: manyheads federate site KIT --data FILE; see manyheads federate status",
                )
            self.say(f"waiting for {', '.join(site for site in sites if site not in there)}")
            time.sleep(POLL)

    def ask(self, action: Action, messages: Mapping[str, Message]) -> Replies:
        """Send a message to each site that is there and take what comes back in time; fewer than the quorum are waited for."""
        rules, good, missing = self.study.rules, dict[str, Message](), dict[str, str]()
        start = time.monotonic()
        quorum = min(rules.min_sites, len(messages))
        while True:
            left = {site: messages[site] for site in messages if site not in good}
            there = [site for site in left if site in self.carrier.present()]
            missing = {site: "not connected" for site in left if site not in there}
            if there and len(good) + len(there) >= quorum:
                found = self._exchange(action, {site: left[site] for site in there})
                good, missing = good | found.good, missing | found.missing
            if len(good) >= quorum:
                return Replies(good, missing)
            waited = time.monotonic() - start
            if waited >= rules.wait:
                why = "; ".join(f"{site}: {reason}" for site, reason in missing.items())
                raise UserError(
                    f"{len(good)} of {len(messages)} sites answered {action!r} within {rules.wait:g} s ({why})",
                    where="min_sites",
                    given=rules.min_sites,
                    fix="see manyheads federate status; what was done before is kept, go on with --resume",
                )
            self.say(f"waiting for {quorum - len(good)} more of the sites {', '.join(left)}")
            time.sleep(min(POLL, rules.wait - waited))

    def _exchange(self, action: Action, messages: Mapping[str, Message]) -> Replies:
        exchange = uuid4().hex
        data: dict[str, bytes] = {}
        for site, message in messages.items():
            facts = message.facts | self._expected(action, site, exchange) | {"study": as_dict(self.study)}
            data[site] = Message(facts, message.tensors).to_bytes()
            self.audit.message("sent", data[site], site=site, action=action, run=self.run)
        asked = time.monotonic()
        replies = self.carrier.exchange(data, self.study.rules.deadline)
        waited = time.monotonic() - asked
        good, missing = {}, {}
        for site in messages:
            reply = replies.get(site, f"no answer within {waited:.0f} s")
            found = reply if isinstance(reply, str) else self._checked(reply, site, action, exchange)
            if isinstance(found, str):
                missing[site] = found
                self.audit.write("dropped", site=site, action=action, run=self.run, why=found)
            else:
                good[site] = found
        return Replies(good, missing)

    def _checked(self, data: bytes, site: str, action: str, exchange: str) -> Message | str:
        """A reply that is one to what was asked, or what is wrong with it."""
        self.audit.message("received", data, site=site, action=action, run=self.run)
        if len(data) > self.study.rules.max_megabytes * 1e6:
            return f"a reply of {len(data) / 1e6:.0f} MB is larger than allowed"
        try:
            reply = Message.from_bytes(data)
        except UserError as error:
            return str(error)
        expected = self._expected(action, site, exchange)
        if "error" in reply.facts:
            return str(reply.facts["error"])
        other = [name for name, value in expected.items() if reply.facts.get(name) != value]
        return f"a reply of another {other[0]}" if other else reply

    def _expected(self, action: str, site: str, exchange: str) -> dict[str, Any]:
        """What a message and its reply have in common."""
        return {"protocol": PROTOCOL, "action": action, "site": site, "run": self.run, "exchange": exchange}
