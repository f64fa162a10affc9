"""What all shapes of Flink's routes have in common."""

from pydantic import ConfigDict

from jobmanager.api.shapes.shape import Shape


def _with_hyphens(name: str) -> str:
    return name.replace("_", "-")


class FlinkShape(Shape):
    """A JSON object of Flink's routes. A field that Flink sometimes leaves out has a default value
    here, and is left out unless it was set: the routes have `response_model_exclude_unset`.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)


class HyphenatedShape(FlinkShape):
    """The same, for objects in which Flink writes hyphens: `start_time` is `start-time`."""

    model_config = ConfigDict(alias_generator=_with_hyphens)
