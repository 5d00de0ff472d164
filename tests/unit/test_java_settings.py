"""What lets a worker in is said in Java's words, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from marq.errors import ConfigError
from marq.spark.java_settings import java_settings


def test_a_password_and_a_ca_are_said_as_a_login_and_a_truststore(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()

    found = java_settings(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "marq",
            "sasl.password": 'a"b\\',
            "ssl.ca.location": str(ca),
            "linger.ms": 5,
        }
    )

    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="marq" password="a\\"b\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }


def test_a_token_of_an_issuer_is_asked_for_by_java_itself() -> None:
    found = java_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "marq",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        }
    )

    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://issuer/token"
    assert found["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    assert 'clientId="marq" clientSecret="s";' in found["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("ssl.cipher.suites", "x", "ssl.cipher.suites"),
        ("ssl.crl.location", "x", "ssl.crl.location"),
        ("enable.ssl.certificate.verification", False, "always checks"),
        ("ssl.ca.location", "/nowhere/at/all.pem", "one PEM file"),
        ("ssl.certificate.location", "/nowhere/at/all.pem", "cannot be read"),
        ("sasl.mechanism", "GSSAPI", "GSSAPI"),
        ("security.protocol", "SASL_SSL", "GSSAPI"),
        ("sasl.kerberos.keytab", "x", "sasl.kerberos.keytab"),
    ],
)
def test_what_java_cannot_be_told_is_refused_by_name(
    setting: str, value: str | bool, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        java_settings({setting: value})


def test_keys_that_java_cannot_read_are_refused_with_the_way_to_convert_them() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )

    with pytest.raises(ConfigError, match="openssl pkcs8 -topk8"):
        java_settings({"ssl.key.pem": old.decode()})
    with pytest.raises(ConfigError, match="openssl pkcs12 -export"):
        java_settings({"ssl.key.pem": encrypted.decode()})


def test_a_message_of_a_refusal_holds_no_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        java_settings({"sasl.mechanism": "PLAIN", "sasl.kerberos.keytab": "the-secret"})

    assert "the-secret" not in str(refused.value)
