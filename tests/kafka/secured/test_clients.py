"""Whatever lets a worker in lets Spark in, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import marq
from marq.embedded import tether
from tests.kafka.secured import spark_reads
from tests.kafka.secured.authority import PASSWORD
from tests.kafka.secured.cluster import Right, Secured, Settings

pytestmark = [pytest.mark.java, pytest.mark.kafka, pytest.mark.timeout(600)]

NAME = "partner"


def forms(secured: Secured) -> dict[str, tuple[str, Settings]]:
    """All ways to say who one is."""
    own = secured.authority.identity(NAME)
    shown = secured.shown(own)
    ca = {"ssl.ca.location": shown["ssl.ca.location"], "security.protocol": "ssl"}
    token = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": f"principal={NAME}"}
    return {
        "certificate and key in two files": (secured.mutual, shown),
        "PKCS12": (
            secured.mutual,
            {**ca, "ssl.keystore.location": str(own.store), "ssl.keystore.password": PASSWORD},
        ),
        "all inline": (
            secured.mutual,
            {
                "security.protocol": "SSL",
                "ssl.ca.pem": secured.authority.certificate.read_text(),
                "ssl.certificate.pem": own.chain.read_text(),
                "ssl.key.pem": own.key.read_text(),
            },
        ),
        "another host name, not looked at": (
            secured.mutual.replace("127.0.0.1", "localhost"),
            {**shown, "ssl.endpoint.identification.algorithm": "none"},
        ),
        "a password": (secured.servers, secured.login("app")),
        "a token": (
            secured.servers,
            {**ca, "security.protocol": "SASL_SSL", **token}
            | {"enable.sasl.oauthbearer.unsecure.jwt": True},
        ),
    }


def test_spark_reads_with_every_form_of_settings_that_lets_a_client_in(
    secured: Secured, tmp_path: Path
) -> None:
    for user in (NAME, "app"):
        everything = (Right(kind, "*", "ALL") for kind in ("TOPIC", "GROUP"))
        secured.allow(user, *everything, Right("BROKER", "kafka-cluster", "ALL", exact=True))
    found = forms(secured)
    with marq.connect(f"kafka://{secured.servers}", kafka=secured.login("admin")) as broker:
        queue = broker.queue("read-by-spark", partitions=1)
        queue.send(b"first")

    for form, (servers, settings) in found.items():
        with marq.connect(f"kafka://{servers}", kafka=settings) as broker:
            broker.queue("read-by-spark").send(form)
    read = subprocess.run(
        [
            *(sys.executable, tether.__file__, str(os.getpid()), sys.executable),
            *("-m", spark_reads.__name__, str(tmp_path), "read-by-spark"),
        ],
        input=json.dumps(list(found.values())),
        capture_output=True,
        text=True,
        check=False,
    )

    assert read.returncode == 0, read.stderr
    lines = [json.loads(line) for line in read.stdout.splitlines()]
    assert lines == [["first", *found]] * len(found)
