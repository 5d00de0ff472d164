"""librdkafka's settings in the words of the Java client, for Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping

_SAME = (
    "security.protocol",
    "ssl.endpoint.identification.algorithm",
    "client.dns.lookup",
)
_RENAMED = {"sasl.mechanisms": "sasl.mechanism", "sasl.mechanism": "sasl.mechanism"}
_PEM = {
    "ssl.ca.location": "ssl.truststore",
    "ssl.key.location": "ssl.keystore",
}
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(settings: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """What of these settings decides whether the cluster lets us in."""
    found = {name: str(settings[name]) for name in _SAME if name in settings}
    for name, other in _RENAMED.items():
        if name in settings:
            found[other] = str(settings[name])
    for name, store in _PEM.items():
        if name in settings:
            found[f"{store}.type"] = "PEM"
            found[f"{store}.location"] = str(settings[name])
    if "sasl.username" in settings:
        module = _LOGIN.get(found.get("sasl.mechanism", "PLAIN"), _LOGIN["PLAIN"])
        user, password = settings["sasl.username"], settings.get("sasl.password", "")
        found["sasl.jaas.config"] = (
            f"{module} required username={_quoted(user)} password={_quoted(password)};"
        )
    return found


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
