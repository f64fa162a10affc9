"""The cluster as Flink shows it."""

from jobmanager.api.shapes.flink.flink_shape import HyphenatedShape


class ClusterOverview(HyphenatedShape):
    taskmanagers: int
    """Runners whose process is alive."""
    taskmanagers_blocked: int
    slots_total: int
    """Tasks that the Spark of all runners runs at the same time."""
    slots_available: int
    slots_free_and_blocked: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    """The version whose REST API this one follows."""
    flink_commit: str
    headgate_version: str


class WebFeatures(HyphenatedShape):
    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class WebConfig(HyphenatedShape):
    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: WebFeatures
