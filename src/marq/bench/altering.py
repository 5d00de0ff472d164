"""Settings of groups and brokers that only an admin client can change."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from marq.kafka.client import config

_PATIENCE_S = 30


def alter_group(servers: str, group: str, setting: str, value: str) -> None:
    """Change a setting of a group, which need not be there yet."""
    _alter(_admin(servers), ResourceType.GROUP, group, setting, value)


def alter_brokers(servers: str, setting: str, value: str) -> None:
    """Change a setting of all brokers."""
    admin = _admin(servers)
    for broker in admin.list_topics(timeout=_PATIENCE_S).brokers:
        _alter(admin, ResourceType.BROKER, str(broker), setting, value)


def _admin(servers: str) -> AdminClient:
    return AdminClient(config.common(servers, {}))


def _alter(admin: AdminClient, kind: ResourceType, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_PATIENCE_S)
