"""The roles in a session: to watch, to prompt, or to administer it."""

from typing import Literal

from ...errors import InvalidRequest

Role = Literal["viewer", "editor", "admin"]
RANK: dict[Role, int] = {"viewer": 0, "editor": 1, "admin": 2}


def may(role: Role | None, needed: Role) -> bool:
    return role is not None and RANK[role] >= RANK[needed]


def check_role(role: Role | None, needed: Role) -> None:
    if not may(role, needed):
        raise InvalidRequest(f"this needs the role {needed} in the session", {"kind": "role", "needed": needed})


def lower_role(one: Role, other: Role) -> Role:
    return min(one, other, key=RANK.__getitem__)
