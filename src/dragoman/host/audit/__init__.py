"""What was asked, decided and done, in a log nobody can change unnoticed."""

from .chain import Problem, shown, verified, verify
from .log import AuditError, AuditLog, default_path
from .redaction import Redactor

__all__ = ["AuditError", "AuditLog", "Problem", "Redactor", "default_path", "shown", "verified", "verify"]
