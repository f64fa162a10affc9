"""The fields that Kafka sources and sinks share, and the rules about their options."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobmanager.core.graph.connectors.sockets import address
from jobmanager.core.graph.document_fields import Fields

_SERVER = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^\s:,\[\]]+)):(\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
CLIENT = "kafka."
"""What the names of options for Kafka's own client begin with."""
_FIELD_OF: Mapping[str, str] = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topic",
    "subscribepattern": "pattern",
    "assign": "topic",
    "topic": "topic",
    "startingoffsets": "starting",
    "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting",
    "maxoffsetspertrigger": "max_rows_per_batch",
    "includeheaders": "metadata",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "kafka.transactional.id": "guarantee",
    "kafka.enable.auto.commit": "group",
}
"""Options that would contradict a field."""
_SAFE = frozenset(
    [
        "security.protocol",
        "sasl.mechanism",
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "max.poll.interval.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "request.timeout.ms",
        "default.api.timeout.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "retries",
        "connections.max.idle.ms",
        "isolation.level",
        "check.crcs",
        "allow.auto.create.topics",
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "delivery.timeout.ms",
        "max.in.flight.requests.per.connection",
        "enable.idempotence",
        "transaction.timeout.ms",
        "partitioner.ignore.keys",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.key.password",
        "ssl.truststore.certificates",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
    ]
)
"""Settings of a Kafka client that name no class. Any other setting may be one that does."""
_OF_SPARK = frozenset(
    [
        "failondataloss",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "minpartitions",
        "maxrecordsperpartition",
        "minoffsetspertrigger",
        "maxtriggerdelay",
    ]
)
_OF_BATCHES = frozenset(
    ["minpartitions", "maxrecordsperpartition", "minoffsetspertrigger", "maxtriggerdelay"]
)
_LOGIN = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\."
    r"(?:plain\.PlainLoginModule|scram\.ScramLoginModule)"
    r"\s+required(?:\s+(?:username|password)\s*=\s*(?:\"[^\";]*\"|\$\{secret:[^}]*\}))*\s*;?\s*"
)
"""A login by name and password, with Kafka's own modules."""


def read_servers(fields: Fields) -> tuple[str, ...]:
    """Read the field `servers`: one text with commas, or a list of `host:port`."""
    raw = fields.raw("servers")
    listed = raw if isinstance(raw, list) else str(raw).split(",") if raw is not None else []
    servers = tuple(str(one).strip() for one in listed)
    if not servers:
        fields.fault("servers", "missing: the brokers to ask first, such as host:9092, are needed")
    for server in servers:
        found = _SERVER.fullmatch(server)
        if found is None or not 1 <= int(found[3]) <= 65535:
            fields.fault("servers", f"{server!r} is not of the form host:port")
    return servers


def places_of(servers: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The addresses of brokers, for the rule about allowed paths."""
    for server in servers:
        if found := _SERVER.fullmatch(server):
            yield "servers", address("kafka", found[1] or found[2], int(found[3]))


def read_topic(fields: Fields, field: str = "topic") -> str:
    topic = fields.text(field)
    check_topic(fields, field, topic)
    return topic


def check_topic(fields: Fields, field: str, topic: str) -> None:
    if topic and (not _TOPIC.fullmatch(topic) or topic in (".", "..")):
        fields.fault(
            field,
            f"{topic!r} is not a topic's name: letters, digits and . _ - are allowed, at most 249",
        )


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics a source reads: some by name, or all whose name matches a pattern."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @property
    def option(self) -> tuple[str, str]:
        """Spark's option for it."""
        if self.pattern is not None:
            return "subscribePattern", self.pattern
        return "subscribe", ",".join(self.topics)

    @property
    def subject(self) -> str | None:
        """The subject that producers use for the values of the topic by default; None: there are
        several topics.
        """
        return f"{self.topics[0]}-value" if len(self.topics) == 1 else None


def read_subscription(fields: Fields) -> TopicSelection:
    """Read one of the fields `topic`, `topics` and `pattern`."""
    given = [field for field in ("topic", "topics", "pattern") if fields.has(field)]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        fields.fault("topic", f"exactly one of topic, topics and pattern is needed, found {found}")
        return TopicSelection()
    if given == ["topic"]:
        return TopicSelection((read_topic(fields),))
    if given == ["pattern"]:
        pattern = fields.text("pattern")
        try:
            re.compile(pattern)
        except re.error as error:
            fields.fault("pattern", f"{pattern!r} is not a regular expression: {error}")
        return TopicSelection((), pattern)
    listed = fields.raw("topics")
    if not isinstance(listed, list) or not listed or not all(isinstance(t, str) for t in listed):
        fields.fault("topics", f"{listed!r} is not a list of topics")
        return TopicSelection()
    for topic in listed:
        check_topic(fields, "topics", topic)
    return TopicSelection(tuple(listed))


@dataclass(frozen=True, slots=True)
class StartingPosition:
    """Where a source begins if there is no state to continue from."""

    offsets: str
    """Spark's `startingOffsets`: `earliest`, `latest`, or JSON."""
    timestamp_ms: int | None = None
    """The first record at or after this moment, in each partition."""

    @property
    def options(self) -> dict[str, str]:
        """Spark's options for it."""
        if self.timestamp_ms is None:
            return {"startingOffsets": self.offsets}
        # a partition without a later record begins at its end
        return {
            "startingTimestamp": str(self.timestamp_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        }


def read_starting(fields: Fields, subscription: TopicSelection) -> StartingPosition:
    """Read the field `starting`; by default the source begins with the earliest record."""
    given = fields.raw("starting")
    if given is None:
        return StartingPosition("earliest")
    if given in ("earliest", "latest"):
        return StartingPosition(given)
    if isinstance(given, Mapping) and list(given) == ["timestamp"]:
        return StartingPosition("earliest", _moment(fields, given["timestamp"]))
    if isinstance(given, Mapping) and list(given) == ["offsets"]:
        return StartingPosition(_offsets(fields, given["offsets"], subscription))
    fields.fault(
        "starting",
        f"{given!r} is none of earliest, latest, {{offsets: {{partition: offset}}}} and "
        "{timestamp: 2026-01-31T12:00:00Z}",
    )
    return StartingPosition("earliest")


def _moment(fields: Fields, given: Any) -> int | None:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        fields.fault(
            "starting.timestamp",
            f"{str(given)!r} is not a moment with a time zone, such as 2026-01-31T12:00:00Z, and "
            "not a number of milliseconds since 1970",
        )
        return None
    return int(moment.timestamp() * 1000)


def _offsets(fields: Fields, given: Any, subscription: TopicSelection) -> str:
    """Spark's JSON of `{topic: {partition: offset}}`, or of `{partition: offset}` for one topic."""
    wanted = "starting.offsets"
    if not isinstance(given, Mapping) or not given:
        fields.fault(wanted, f"{given!r} is not a mapping partition: offset")
        return "earliest"
    if subscription.pattern is not None:
        fields.fault(wanted, "offsets need topics by name, and pattern names none")
        return "earliest"
    is_nested = all(isinstance(one, Mapping) for one in given.values())
    if not is_nested and len(subscription.topics) != 1:
        fields.fault(wanted, "with several topics write {topic: {partition: offset}}")
        return "earliest"
    by_topic = given if is_nested else {next(iter(subscription.topics)): given}
    for topic in subscription.topics:
        if topic not in by_topic:
            fields.fault(wanted, f"the offsets of topic {topic!r} are missing")
    made: dict[str, dict[str, int]] = {}
    for topic, partitions in by_topic.items():
        if topic not in subscription.topics:
            fields.fault(wanted, f"topic {topic!r} is not among the topics of the source")
        made[str(topic)] = dict(_partitions(fields, partitions))
    return json.dumps(made)


def _partitions(fields: Fields, given: Mapping[Any, Any]) -> Iterator[tuple[str, int]]:
    named = {"earliest": -2, "latest": -1}
    for partition, offset in given.items():
        at = named.get(offset, offset) if isinstance(offset, str) else offset
        is_number = isinstance(at, int) and not isinstance(at, bool) and at >= -2
        if not str(partition).isdigit() or not is_number:
            fields.fault(
                "starting.offsets",
                f"{partition!r}: {offset!r} is not partition: offset, with numbers from 0, or "
                "earliest or latest as an offset",
            )
            continue
        yield str(partition), int(at)


def reserved_option_fault(option: str) -> str | None:
    """Why an option contradicts a field; None: it does not."""
    field = _FIELD_OF.get(option.lower())
    return (
        f"{option!r} is the vertex's own field `{field}`: leave this option out" if field else None
    )


def is_of_kafka(option: str) -> bool:
    """Whether an option is for Kafka's client or Spark's source, and not for the format."""
    return option.lower().startswith(CLIENT) or option.lower() in _OF_SPARK


def plans_batches(option: str) -> bool:
    """Whether an option of Spark's source is about how a batch is cut or divided."""
    return option.lower() in _OF_BATCHES


def is_safe(option: str, value: str) -> bool:
    """Whether an option names no class that a Kafka client would load. Spark takes the names of
    options in upper and lower case alike.
    """
    name = option.lower()
    if not name.startswith(CLIENT):
        return True
    setting = name.removeprefix(CLIENT)
    if setting == "sasl.jaas.config":
        return _LOGIN.fullmatch(value) is not None
    return setting in _SAFE


def code_in(options: Mapping[str, str]) -> str | None:
    """Why options need the role `developer`, as the rest of a sentence about the vertex."""
    unsafe = sorted(name for name, value in options.items() if not is_safe(name, value))
    if not unsafe:
        return None
    return f"has the option {unsafe[0]!r}, with which a Kafka client may load a class or a file"


def client_settings(servers: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Kafka client that are given by a vertex."""
    own = {
        name.lower().removeprefix(CLIENT): value
        for name, value in options.items()
        if name.lower().startswith(CLIENT)
    }
    return {**own, "bootstrap.servers": ",".join(servers)}
