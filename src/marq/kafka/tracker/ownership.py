"""Who runs the tracker: the newest owner in the catalog, and nobody else."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from marq.core.catalog.definitions import Catalog
from marq.core.names import Space
from marq.kafka.client.config import Config
from marq.kafka.client.transactions import Transactions
from marq.kafka.cluster.catalog_log import CatalogLog

log = logging.getLogger("marq.tracker")


def take_over(catalog: CatalogLog, owner: str) -> None:
    """Become the owner; whoever was it before finds out."""
    while not catalog.append(catalog.read().take_over(owner)):
        pass  # another one was faster: the newest owner counts, so this one is after it
    log.info("tracker takes over", extra={"owner": owner})


def is_owner(catalog: Catalog, owner: str) -> bool:
    """Whether nobody has taken over since."""
    return catalog.owner() == owner


def end_open_transactions(settings: Config, space: Space, places: list[tuple[str, int]]) -> None:
    """End what a dead tracker left open, lest readers wait for it until the broker does."""

    def end(place: tuple[str, int]) -> None:
        Transactions(settings, space.tracker_id(*place)).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, places))
