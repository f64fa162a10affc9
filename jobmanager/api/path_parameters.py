"""Parameters of kind `path` take any text, also with line ends, which Starlette does not take."""

from starlette.convertors import PathConvertor, register_url_convertor


class AnyText(PathConvertor):
    regex = "(?s:.*)"


def register() -> None:
    """To be called before a route with such a parameter is defined."""
    register_url_convertor("path", AnyText())
