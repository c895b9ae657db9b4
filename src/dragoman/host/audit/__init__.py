"""A log of requests, decisions and operations in which every change is noticed."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .chain import Problem, shown, verified, verify
    from .log import AuditError, AuditLog, default_path
    from .redaction import Redactor

__all__ = ["AuditError", "AuditLog", "Problem", "Redactor", "default_path", "shown", "verified", "verify"]

__getattr__ = loading(
    __name__,
    {
        "chain": ("Problem", "shown", "verified", "verify"),
        "log": ("AuditError", "AuditLog", "default_path"),
        "redaction": ("Redactor",),
    },
)
