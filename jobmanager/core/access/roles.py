"""Roles: what a token allows. Each role may do what the roles before it may, and more.

viewer < operator < developer < admin
"""

from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"
    """Reads: jobs, checkpoints, state, logs, metrics."""
    OPERATOR = "operator"
    """Also runs jobs made of built-in operators, and stops, rescales and checkpoints any job."""
    DEVELOPER = "developer"
    """Also uploads code, and runs jobs that contain code."""
    ADMIN = "admin"
    """Also tokens, the audit, the collection of garbage."""

    def covers(self, needed: "Role") -> bool:
        """Whether somebody with this role may do what needs the other role."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(Role)}
