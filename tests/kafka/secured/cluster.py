"""A real broker that lets nobody in without a certificate or a password, and lets nobody do what no
ACL allows."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from marq.embedded import children, ports
from marq.embedded.jvm import jars, java
from tests.kafka.secured.authority import Authority, Identity

HOST = "127.0.0.1"
ADMIN = "admin"
START_S = 120.0
Settings = dict[str, str | int | float | bool]


def in_environment(settings: Settings) -> dict[str, str]:
    """The same settings for a process."""
    return {
        f"MARQ_KAFKA__{name.upper().replace('.', '_')}": str(value)
        for name, value in settings.items()
    }


class Secured:
    """A running broker: by password at `servers`, by certificate at `mutual`."""

    def __init__(self, directory: Path, users: tuple[str, ...]) -> None:
        self._directory = directory
        self.authority = Authority(directory / "ca")
        self.password_port, self.mutual_port, self._controller = ports.choose(3, random.Random())
        self._passwords = {name: f"password-of-{name}" for name in (ADMIN, *users)}
        self._broker = self.authority.identity("broker", HOST)

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.password_port}"

    @property
    def mutual(self) -> str:
        return f"{HOST}:{self.mutual_port}"

    def password(self, user: str) -> str:
        return self._passwords[user]

    def login(self, user: str, **other: str) -> Settings:
        """The settings of a client that comes with a password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self._passwords[user],
            "ssl.ca.location": str(self.authority.certificate),
            **{name.replace("_", "."): value for name, value in other.items()},
        }

    def shown(self, identity: Identity) -> Settings:
        """The settings of a client that comes with a certificate."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(identity.chain),
            "ssl.key.location": str(identity.key),
        }

    @contextmanager
    def running(self) -> Iterator[Secured]:
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
        environment = {**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars.resolve("kafka")))}
        program = str(java.find())
        scram = [
            f"--add-scram=SCRAM-SHA-512=[name={name},password={password}]"
            for name, password in self._passwords.items()
        ]
        tool = [program, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
        subprocess.run(
            [*tool, "-c", str(properties), *scram], env=environment, check=True, capture_output=True
        )
        log = self._directory / "broker.log"
        with log.open("wb") as output:
            command = [program, "-Xmx384m", "kafka.Kafka", str(properties)]
            process = children.spawn(command, environment, output)
        try:
            self._wait_until_it_answers(process, log)
            yield self
        finally:
            process.terminate()
            children.wait(process)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], log: Path) -> None:
        admin, until = self.admin(), time.monotonic() + START_S
        while True:
            assert process.poll() is None, "\n".join(children.tail(log, 30))
            try:
                admin.list_topics(timeout=2)
                return
            except KafkaException:
                assert time.monotonic() < until, "\n".join(children.tail(log, 30))

    def admin(self) -> AdminClient:
        """Whoever may do anything."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0, **self.login(ADMIN)})

    def change_password(self, user: str, password: str) -> None:
        """Known to the broker when this returns; connections that are there stay."""
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        change = UserScramCredentialUpsertion(user, kind, password.encode())
        admin = self.admin()
        for changed in admin.alter_user_scram_credentials([change]).values():
            changed.result(30)
        self._passwords[user] = password
        until = time.monotonic() + 30
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, **self.login(user)})
        while True:
            try:
                admin.list_topics(timeout=2)
                return
            except KafkaException:
                assert time.monotonic() < until, f"the password of {user} is not in force"

    # Rights.

    def allow(self, user: str, *rights: Right) -> None:
        """Give a user these rights, and no others; what he had before and has now he never
        lacks."""
        admin, everything = self.admin(), _all_of(user)
        wanted = {binding for right in rights for binding in right.bindings(user)}
        had = set(admin.describe_acls(everything).result(30))
        if wanted - had:
            for created in admin.create_acls(list(wanted - had)).values():
                created.result(30)
        if had - wanted:
            for deleted in admin.delete_acls(list(map(_exactly, had - wanted))).values():
                deleted.result(30)
        until = time.monotonic() + 30
        # The controller has them; the broker hears of it.
        while set(admin.describe_acls(everything).result(30)) != wanted:
            assert time.monotonic() < until, f"the rights of {user} are not in force"

    def _properties(self) -> dict[str, Any]:
        broker, authority = self._broker, self.authority
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"IN://{HOST}:{self.password_port},MUTUAL://{HOST}:{self.mutual_port},"
            f"CONTROLLER://{HOST}:{self._controller}",
            "advertised.listeners": f"IN://{HOST}:{self.password_port},"
            f"MUTUAL://{HOST}:{self.mutual_port}",
            "listener.security.protocol.map": "IN:SASL_SSL,MUTUAL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "MUTUAL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.in.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "listener.name.in.oauthbearer.sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            ),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": broker.store,
            "ssl.keystore.password": "of-the-key",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.certificate,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.-]*).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:broker",
            "log.dirs": self._directory / "data",
            "auto.create.topics.enable": "false",
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        }


def _exactly(one: AclBinding) -> AclBindingFilter:
    about = (one.restype, one.name, one.resource_pattern_type, one.principal, one.host)
    return AclBindingFilter(*about, one.operation, one.permission_type)


def _all_of(user: str) -> AclBindingFilter:
    anything: Any = None
    return AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        f"User:{user}",
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


class Right:
    """Operations on what begins with a name; `*`: on all of that kind."""

    def __init__(self, kind: str, prefix: str, *operations: str, exact: bool = False) -> None:
        self.kind, self.prefix, self.operations = kind, prefix, operations
        self.exact = exact or prefix == "*"

    def bindings(self, user: str) -> Iterator[AclBinding]:
        pattern = ResourcePatternType.LITERAL if self.exact else ResourcePatternType.PREFIXED
        for operation in self.operations:
            yield AclBinding(
                ResourceType[self.kind],
                self.prefix,
                pattern,
                f"User:{user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )

    def singly(self) -> Iterator[Right]:
        """The same, a right for each operation."""
        for operation in self.operations:
            yield Right(self.kind, self.prefix, operation, exact=self.exact)

    def described(self) -> Right:
        """No more than to see that it is there."""
        return Right(self.kind, self.prefix, "DESCRIBE", exact=self.exact)

    def __repr__(self) -> str:
        return f"{'+'.join(self.operations)} on {self.kind.lower()} {self.prefix}"
