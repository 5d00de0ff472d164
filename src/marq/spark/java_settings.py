"""librdkafka's security settings in the words of the Java client, for Spark's Kafka connector.

All that decides whether and how a cluster lets us in is mapped or refused by name: a setting that
was dropped in silence would show as a cluster that lets workers in and not the tracker. Settings of
other kinds (timeouts, buffers) are librdkafka's own.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path

from marq.errors import ConfigError

JavaSettings = Mapping[str, str | int | float | bool]
FoundSettings = dict[str, str]

_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_OIDC = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""The name of what openssl encrypts keys by, as it stands in them."""
_OLD_KEYS = ("-----BEGIN RSA PRIVATE KEY", "-----BEGIN EC PRIVATE KEY")


def java_settings(settings: JavaSettings) -> FoundSettings:
    """What of these settings decides whether the cluster lets us in."""
    given = {name: _text(value) for name, value in settings.items()}
    found: FoundSettings = {}
    for name, value in given.items():
        if name == "client.dns.lookup":
            found[name] = value
        elif name.startswith(_SECURITY):
            found.update(_rule(name)(value))
    if found.get("security.protocol", "").startswith("SASL") or "sasl.mechanism" in found:
        found.update(_login(found.get("sasl.mechanism", "GSSAPI"), given))
    return found


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rule(name: str) -> Callable[[str], FoundSettings]:
    rule = _RULES.get(name)
    if rule is None:
        raise ConfigError(
            f"the tracker cannot use the Kafka setting {name!r}, for Spark's client has no such "
            f"setting: leave it out for the tracker, or use one of {', '.join(sorted(_RULES))}"
        )
    return rule


# TLS.


def _same(name: str) -> Callable[[str], FoundSettings]:
    return lambda value: {name: value}


def _upper(name: str) -> Callable[[str], FoundSettings]:
    return lambda value: {name: value.upper()}


def _said_in_login(value: str) -> FoundSettings:
    return {}


def _verified(value: str) -> FoundSettings:
    if value != "true":
        raise ConfigError(
            "the tracker cannot use 'enable.ssl.certificate.verification' = false: Spark's client "
            "always checks the broker's certificate; name its CA by 'ssl.ca.location'"
        )
    return {}


def _host_checked(value: str) -> FoundSettings:
    return {"ssl.endpoint.identification.algorithm": "" if value == "none" else value}


def _trusted_file(value: str) -> FoundSettings:
    if not Path(value).is_file():
        raise ConfigError(
            f"the tracker cannot use 'ssl.ca.location' = {value!r}: Spark's client takes one PEM "
            f"file of certificates"
        )
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": value}


def _trusted(value: str) -> FoundSettings:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": value}


def _chain(value: str) -> FoundSettings:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": value}


def _key(value: str) -> FoundSettings:
    if any(sign in value for sign in _OLD_KEYS):
        raise ConfigError(
            "the tracker cannot use a private key in the PKCS#1 or SEC1 form ('ssl.key.location'): "
            "convert it for Spark's client with: openssl pkcs8 -topk8 -in KEY -out KEY.pkcs8"
        )
    if _is_encrypted_by(_PBES2, value):
        raise ConfigError(
            "the tracker cannot use a private key encrypted as openssl does it by default "
            "('ssl.key.location'): give Spark's client a PKCS#12 store by 'ssl.keystore.location', "
            "made with: openssl pkcs12 -export -inkey KEY -in CERTIFICATE -out STORE.p12"
        )
    return {"ssl.keystore.type": "PEM", "ssl.keystore.key": value}


def _is_encrypted_by(algorithm: bytes, key: str) -> bool:
    _, begin, rest = key.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    try:
        return bool(begin) and algorithm in b64decode(rest.partition("-----")[0])
    except ValueError:
        raise ConfigError("'ssl.key.location': the private key is no PEM") from None


def _of_file(name: str, rule: Callable[[str], FoundSettings]) -> Callable[[str], FoundSettings]:
    """The rule on what the file holds: Java wants key and certificates in one file or as text."""

    def read(value: str) -> FoundSettings:
        try:
            return rule(Path(value).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name!r} = {value!r} cannot be read: {error}") from None

    return read


def _keystore(value: str) -> FoundSettings:
    return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": value}


# SASL.


def _login(mechanism: str, given: Mapping[str, str]) -> FoundSettings:
    if mechanism not in _LOGIN:
        raise ConfigError(
            f"the tracker cannot use 'sasl.mechanism' = {mechanism}: it can use {', '.join(_LOGIN)}"
        )
    if mechanism != "OAUTHBEARER":
        user, password = given.get("sasl.username", ""), given.get("sasl.password", "")
        return _jaas(mechanism, {"username": user, "password": password})
    if given.get("sasl.oauthbearer.method") == "oidc":
        named = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        options = {
            java: given[f"sasl.oauthbearer.{name}"]
            for java, name in named.items()
            if f"sasl.oauthbearer.{name}" in given
        }
        return {"sasl.login.callback.handler.class": _OIDC, **_jaas(mechanism, options)}
    return _jaas(mechanism, _claims(given.get("sasl.oauthbearer.config", "")))


def _claims(config: str) -> dict[str, str]:
    """Of tokens that nobody signs: for clusters where development is done."""
    known = dict(pair.partition("=")[::2] for pair in config.split())
    unknown = known.keys() - {"principal", "scope", "lifeSeconds"}
    if unknown:
        raise ConfigError(
            f"the tracker cannot use {', '.join(sorted(unknown))} of 'sasl.oauthbearer.config': "
            f"it can use principal, scope and lifeSeconds"
        )
    claims = {"unsecuredLoginStringClaim_sub": known.get("principal", "")}
    if "scope" in known:
        claims["unsecuredLoginListClaim_scope"] = f",{known['scope']}"
    if "lifeSeconds" in known:
        claims["unsecuredLoginLifetimeSeconds"] = known["lifeSeconds"]
    return claims


def _jaas(mechanism: str, options: Mapping[str, str]) -> FoundSettings:
    said = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return {"sasl.jaas.config": f"{_LOGIN[mechanism]} required {said};"}


def _quoted(value: str) -> str:
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


_RULES: dict[str, Callable[[str], FoundSettings]] = {
    "security.protocol": _upper("security.protocol"),
    "enable.ssl.certificate.verification": _verified,
    "ssl.endpoint.identification.algorithm": _host_checked,
    "ssl.ca.location": _trusted_file,
    "ssl.ca.pem": _trusted,
    "ssl.certificate.location": _of_file("ssl.certificate.location", _chain),
    "ssl.certificate.pem": _chain,
    "ssl.key.location": _of_file("ssl.key.location", _key),
    "ssl.key.pem": _key,
    "ssl.key.password": _same("ssl.key.password"),
    "ssl.keystore.location": _keystore,
    "ssl.keystore.password": _same("ssl.keystore.password"),
    "sasl.mechanism": _upper("sasl.mechanism"),
    "sasl.mechanisms": _upper("sasl.mechanism"),
    "sasl.username": _said_in_login,
    "sasl.password": _said_in_login,
    "sasl.oauthbearer.method": _said_in_login,
    "sasl.oauthbearer.client.id": _said_in_login,
    "sasl.oauthbearer.client.secret": _said_in_login,
    "sasl.oauthbearer.scope": _said_in_login,
    "sasl.oauthbearer.config": _said_in_login,
    "enable.sasl.oauthbearer.unsecure.jwt": _said_in_login,
    "sasl.oauthbearer.token.endpoint.url": _same("sasl.oauthbearer.token.endpoint.url"),
}
