"""The agents of a gateway, and their processes, for the operator."""

from collections.abc import Sequence

from ...foundation.documents import Document
from ..gateway import Gateway


def agents_of(gateway: Gateway) -> Sequence[Document]:
    """One line for each process, and one for each agent without a process."""
    processes = gateway.processes
    lines: list[Document] = []
    for principal, (agent, _, session), upstream in processes.running.entries():
        lines.append(
            {
                "agent": agent,
                "state": "running" if upstream.is_alive else "ending",
                "principal": principal,
                "sessions": len(upstream.parties),
                "clients": len(upstream.audience),
                "unread": upstream.connection.unsent,
                "failures": processes.failures.count(principal, agent),
                **({"session": session} if session else {}),
            }
        )
    idle = gateway.agents.keys() - {line["agent"] for line in lines}
    state = {agent: "stopped" if agent in processes.stopped else "not running" for agent in sorted(idle)}
    lines += ({"agent": agent, "state": how} for agent, how in state.items())
    return lines
