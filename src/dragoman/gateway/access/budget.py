"""The budget of a gateway's limited resources, which every consumer asks first.

Each resource has a total limit and, if principals use it, a limit for each of them.  A refusal names the limit and
is counted under its name.
"""

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ...errors import Overloaded
from .limits import Limits, exceeded, limit_of, limit_rows

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

log = logging.getLogger("dragoman")

Resource = Literal["connections", "sockets", "sessions", "processes", "requests", "queued_bytes"]
RESOURCES: tuple[Resource, ...] = ("connections", "sockets", "sessions", "processes", "requests", "queued_bytes")
EACH = "_each"  # the ending of the name of a principal's limit
_SHARED = {row.name for row in limit_rows() if row.name.endswith(EACH)}
OF_PROCESS = 8  # descriptors for starting an agent: both ends of three pipes, and some for the host


class Share:
    """An allocated part of a resource; giving it back twice has no further effect."""

    __slots__ = ("_amount", "_budget", "_name", "_principal")

    def __init__(self, budget: "GatewayBudget", name: Resource, principal: str, amount: int) -> None:
        self._budget, self._name, self._principal, self._amount = budget, name, principal, amount
        budget.count(name, principal, amount)

    def give_back(self) -> None:
        amount, self._amount = self._amount, 0
        if amount:
            self._budget.count(self._name, self._principal, -amount)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.give_back()


class Figure(Struct, frozen=True):
    """The allocated amount of a resource, and its limit."""

    used: float
    limit: float


class GatewayBudget:
    """Allocates and takes back resources; `refused` is called with the name of a limit at each refusal."""

    def __init__(self, limits: Limits, refused: Callable[[str], None] = lambda name: None) -> None:
        self.limits = limits
        self.refusals: Counter[str] = Counter()  # allocated amounts by the name of the limit
        self._refused = refused
        self._used: Counter[str] = Counter()
        self._shares: dict[str, Counter[str]] = {name: Counter() for name in RESOURCES}

    def take(self, name: Resource, principal: str = "", amount: int = 1) -> Share:
        """Allocate some of a resource; raises Overloaded, which names the reached limit."""
        self.check(name, principal, amount)
        return Share(self, name, principal, amount)

    def check(self, name: Resource, principal: str = "", amount: int = 1) -> None:
        """Raise Overloaded unless some of a resource can be allocated."""
        if limit := self.reached(name, principal, amount):
            raise self.refuse(limit)

    def reached(self, name: Resource, principal: str = "", amount: int = 1) -> str | None:
        """The name of the limit that prevents an allocation, if any; nothing is counted."""
        each = name + EACH
        if each in _SHARED and self._shares[name].get(principal, 0) + amount > limit_of(self.limits, each):
            return each
        return name if self._used[name] + amount > limit_of(self.limits, name) else None

    def count(self, name: Resource, principal: str, amount: int) -> None:
        """Note an amount that a `Share` takes or gives back."""
        self._used[name] += amount
        own = self._shares[name]
        own[principal] += amount
        if not own[principal]:
            del own[principal]

    def used(self, name: Resource, principal: str | None = None) -> int:
        """The allocated amount, in total or for one principal."""
        return self._used[name] if principal is None else self._shares[name].get(principal, 0)

    def check_descriptors(self, wanted: int = 1) -> None:
        """Raise Overloaded unless this number of descriptors can be opened besides the reserved ones."""
        if descriptors_used() + wanted + self.limits.descriptors > descriptor_limit():
            raise self.refuse("descriptors")

    def figures(self) -> Mapping[str, Figure]:
        """The total of every resource by the name of its limit: bounded labels for metrics."""
        found: dict[str, Figure] = {
            name: Figure(self._used[name], limit_of(self.limits, name)) for name in RESOURCES
        }
        return {**found, "descriptors": Figure(descriptors_used(), descriptor_limit())}

    def refuse(self, name: str) -> Overloaded:
        """Count a refusal by a limit; returns the error to raise."""
        self.refusals[name] += 1
        self._refused(name)
        return exceeded(name, limit_of(self.limits, name))


class ClientSockets:
    """Accepts clients' sockets as long as descriptors and the budget last."""

    def __init__(self, budget: GatewayBudget) -> None:
        self._budget = budget

    def enter(self) -> bool:
        try:
            self._budget.check_descriptors()
            self._budget.check("sockets")
        except Overloaded as exc:
            log.warning("a client is not let in: %s", exc)
            return False
        self._budget.count("sockets", "", 1)
        return True

    def leave(self) -> None:
        self._budget.count("sockets", "", -1)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of descriptors to the hard one; returns the new limit."""
    if resource is None:
        return descriptor_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS reports "unlimited" and allows less
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return descriptor_limit()


def descriptor_limit() -> int:
    """The limit of open descriptors of this process."""
    if resource is None:
        return 8192
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if soft == resource.RLIM_INFINITY else soft


def descriptors_used() -> int:
    """The number of open descriptors of this process; the limit if it cannot be determined."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # its size since Linux 6.2
    except FileNotFoundError:
        return len(os.listdir("/dev/fd")) if Path("/dev/fd").is_dir() else 0
    except OSError:
        return descriptor_limit()
