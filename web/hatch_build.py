"""Has the dashboard built before it is packed into a wheel."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build as dashboard


class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]
    """Not for an editable install, which serves the directory as it is: `make setup` builds."""

    def dependencies(self) -> list[str]:
        if dashboard.is_current() or not dashboard.needs_node_package():
            return []
        return [dashboard.PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version != "editable":
            dashboard.build()
