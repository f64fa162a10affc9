"""Roles: what a token allows. Each role has the rights of the roles before it.

viewer < operator < developer < admin
"""

from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"
    """Reads jobs, checkpoints, state, logs and metrics."""
    OPERATOR = "operator"
    """Also runs jobs made of built-in operators, and stops, rescales and checkpoints any job."""
    DEVELOPER = "developer"
    """Also uploads code, and runs jobs that contain code."""
    ADMIN = "admin"
    """Also manages tokens, reads the audit and collects garbage."""

    def covers(self, needed: "Role") -> bool:
        """Return whether this role has the rights of the other role."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(Role)}
