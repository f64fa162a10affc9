"""Where lineage events are sent, as the standard variables of OpenLineage say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from jobmanager.core.signals.delivery import Delivery, SendOutcome
from jobmanager.core.signals.lineage import LineageProducer
from jobmanager.services.ports.signals import OutgoingRequest, RequestSender
from jobmanager.services.webhooks import DELIVERY_HEADER

_ENDPOINT = "api/v1/lineage"
_TRANSPORT = "OPENLINEAGE__TRANSPORT__"


@dataclass(frozen=True, slots=True)
class LineageReceiver:
    """Of the server's own settings: no rule restricts its address."""

    url: str = field(repr=False)
    sender: RequestSender
    producer: LineageProducer
    api_key: str | None = field(default=None, repr=False)

    async def send(self, delivery: Delivery) -> SendOutcome:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Headgate",
            DELIVERY_HEADER: str(delivery.key),
        }
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return await self.sender.send(OutgoingRequest(self.url, delivery.body.encode(), headers))


def receiver_from(environment: Mapping[str, str], sender: RequestSender) -> LineageReceiver | None:
    """Return the receiver that the variables name; None: lineage events are switched off."""
    if environment.get("OPENLINEAGE_DISABLED", "").lower() in ("true", "1"):
        return None
    url = environment.get("OPENLINEAGE_URL") or _transport(environment, "URL")
    if not url:
        return None
    endpoint = (
        environment.get("OPENLINEAGE_ENDPOINT") or _transport(environment, "ENDPOINT") or _ENDPOINT
    )
    producer = LineageProducer(
        version("headgate"),
        version("pyspark"),
        environment.get("OPENLINEAGE_NAMESPACE") or "default",
    )
    return LineageReceiver(
        f"{url.rstrip('/')}/{endpoint.lstrip('/')}",
        sender,
        producer,
        environment.get("OPENLINEAGE_API_KEY") or _transport(environment, "AUTH__APIKEY"),
    )


def _transport(environment: Mapping[str, str], name: str) -> str | None:
    """Return a variable of the newer form, which names the kind of transport too."""
    if environment.get(f"{_TRANSPORT}TYPE", "http") != "http":
        return None
    return environment.get(_TRANSPORT + name)
