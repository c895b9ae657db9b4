"""Whether a host may do something for an agent: `Permissions` decides, by rules, by presets, or by asking."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .approvals import Approval, ApprovalsError, ApprovalStore, Scope
    from .engine import PRESETS, Decision, Permissions, Preset
    from .questions import Asker, Option, Question
    from .rules.rules import Rules, RulesError, user_file, workspace_file

__all__ = [
    "PRESETS",
    "Approval",
    "ApprovalStore",
    "ApprovalsError",
    "Asker",
    "Decision",
    "Option",
    "Permissions",
    "Preset",
    "Question",
    "Rules",
    "RulesError",
    "Scope",
    "user_file",
    "workspace_file",
]

__getattr__ = loading(
    __name__,
    {
        "approvals": ("Approval", "ApprovalsError", "ApprovalStore", "Scope"),
        "engine": ("PRESETS", "Decision", "Permissions", "Preset"),
        "questions": ("Asker", "Option", "Question"),
        "rules.rules": ("Rules", "RulesError", "user_file", "workspace_file"),
    },
)
