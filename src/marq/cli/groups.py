"""`marq group`: create, look at, change and consume ordered groups."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import marq
from marq.cli import group_routing, logs, plain, shown
from marq.cli.options import Json, QueueName, Url, Yes, connected, duration, sure
from marq.cli.signals import stop_asked
from marq.errors import ConfigError
from marq.group import delete_group

app = typer.Typer(
    help="Ordered groups: strict order per key, one owner at a time.", no_args_is_help=True
)
app.command("route")(group_routing.route)
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="name of the group")]
Member = Annotated[str, typer.Argument(metavar="MEMBER", help="name of the member")]
Members = Annotated[list[str], typer.Argument(metavar="MEMBER...", help="names of members")]


def _existing(broker: marq.Broker, queue: str, group: str) -> marq.Group:
    _check_existing(broker, queue, group)
    return broker.group(queue, group)


def _check_existing(broker: marq.Broker, queue: str, group: str) -> None:
    if (queue, group) not in broker.groups():
        raise ConfigError(
            f"queue {queue!r} has no group {group!r}: "
            f"create it with: marq group create {queue} {group} --max-members 8"
        )


@app.command("ls")
def list_all(url: Url = None, as_json: Json = False) -> None:
    """List the groups."""
    with connected(url) as broker:
        found = [
            {"queue": queue, "group": group, **_summary(broker, queue, group)}
            for queue, group in broker.groups()
        ]
    if as_json:
        return typer.echo(shown.line(found))
    if not found:
        return typer.echo("there are no ordered groups", err=True)
    table = Table("queue", "group", "kind", "partitions", "members")
    for each in found:
        members = ", ".join(each["members"]) or "-"
        about = (each["kind"] or "-", each["max_members"] or "-", members)
        row = (each["queue"], each["group"], *about)
        table.add_row(*map(plain.styled, row))
    Console().print(table)


def _summary(broker: marq.Broker, queue: str, group: str) -> dict[str, Any]:
    """One that cannot be opened (its creation was cut short, a newer release made it) keeps no
    other from being listed."""
    try:
        config = broker.group(queue, group).config
    except ConfigError as error:
        typer.echo(f"marq: {plain.text(str(error))}", err=True)
        return {"kind": None, "max_members": None, "members": []}
    return {
        "kind": config.kind,
        "max_members": config.max_members,
        "members": list(config.names),
    }


@app.command()
def info(queue: QueueName, group: GroupName, url: Url = None, as_json: Json = False) -> None:
    """Show a group: who has what, who is active, what waits."""
    with connected(url) as broker:
        found = _existing(broker, queue, group).info()
    if as_json:
        about = {**asdict(found), "config": _plain(found.config), "warnings": found.warnings}
        return typer.echo(shown.line(about))
    title = f"group {group} of {queue}, version {found.version}"
    table = Table("member", "shall have", "has", "active", title=title, title_justify="left")
    for each in found.members:
        row = (each.member, _numbers(each.partitions), _numbers(each.held), each.active or "nobody")
        table.add_row(*map(plain.styled, row))
    Console().print(table)
    typer.echo(f"waiting, by partition: {' '.join(map(str, found.waiting))}")
    for warning in found.warnings:
        typer.echo(f"marq: {plain.text(warning)}", err=True)


def _numbers(partitions: tuple[int, ...]) -> str:
    return ",".join(map(str, partitions)) or "-"


def _plain(config: Any) -> dict[str, Any]:
    return {
        **config,
        "partitioning_filters": [
            {"filter": each.filter, "partitioning_wildcards": list(each.partitioning_wildcards)}
            for each in config["partitioning_filters"]
        ],
        "member_mappings": [
            {"member": each.member, "partitions": list(each.partitions)}
            for each in config["member_mappings"]
        ],
    }


@app.command()
def create(
    queue: QueueName,
    group: GroupName,
    max_members: Annotated[int, typer.Option(help="also the number of partitions, for good")],
    members: Annotated[
        list[str] | None, typer.Option("--member", help="one of the members")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="elastic or static (elastic)")] = None,
    allocation: Annotated[str | None, typer.Option(help="even or sticky (even)")] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="subjects and the wildcards of the key: orders.*.*:1,2"),
    ] = None,
    ack_wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="how long a delivery may take (5s)")
    ] = None,
    lease: Annotated[
        str | None, typer.Option(metavar="DURATION", help="silence until a takeover (2s)")
    ] = None,
    max_ack_pending: Annotated[int | None, typer.Option(help="handed out, not acked (1)")] = None,
    max_deliver: Annotated[
        int | None, typer.Option(help="then it is a dead letter; 0: never (5)")
    ] = None,
    max_buffered_msgs: Annotated[
        int | None, typer.Option(help="copying stops while as many wait (no limit)")
    ] = None,
    router: Annotated[
        str | None, typer.Option(help="who copies: members, or spark with marq group route")
    ] = None,
    url: Url = None,
) -> None:
    """Create a group; once more with the same options changes nothing."""
    given: dict[str, Any] = {
        "max_members": max_members,
        "members": members,
        "kind": kind,
        "allocation": allocation,
        "partitioning_filters": [_filter(each) for each in filters] if filters else None,
        "ack_wait": None if ack_wait is None else duration(ack_wait),
        "lease": None if lease is None else duration(lease),
        "max_ack_pending": max_ack_pending,
        "max_deliver": max_deliver,
        "max_buffered_msgs": max_buffered_msgs,
        "router": router,
    }
    with connected(url) as broker:
        known = (queue, group) in broker.groups()
        broker.group(queue, group, **{name: it for name, it in given.items() if it is not None})
    typer.echo(f"group {group} of {queue} {'was there already' if known else 'created'}")
    if not known and kind != "static":
        typer.echo("a key that is sent to several partitions of the queue has no order", err=True)


def _filter(text: str) -> dict[str, Any]:
    subjects, _, wildcards = text.partition(":")
    try:
        chosen = [int(number) for number in wildcards.split(",") if number]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write it like orders.*.*:1,2") from None
    return {"filter": subjects, "partitioning_wildcards": chosen}


@app.command()
def delete(queue: QueueName, group: GroupName, yes: Yes = False, url: Url = None) -> None:
    """Delete a group; its instances end, the queue stays."""
    with connected(url) as broker:
        _check_existing(broker, queue, group)
        sure(f"delete group {group} of {queue}?", yes)
        delete_group(broker.backend, queue, group)
    typer.echo(f"group {group} of {queue} deleted")


@app.command()
def add(queue: QueueName, group: GroupName, members: Members, url: Url = None) -> None:
    """Add members."""
    with connected(url) as broker:
        _echo(_existing(broker, queue, group).add(*members))


@app.command()
def drop(queue: QueueName, group: GroupName, members: Members, url: Url = None) -> None:
    """Drop members; what they have goes to the others, in order."""
    with connected(url) as broker:
        _echo(_existing(broker, queue, group).drop(*members))


@app.command("map")
def set_mappings(
    queue: QueueName,
    group: GroupName,
    mappings: Annotated[list[str], typer.Argument(metavar="MEMBER=0,2...", help="who has what")],
    url: Url = None,
) -> None:
    """Say outright who has which partitions; every partition must be named once."""
    wanted = dict(_mapping(each) for each in mappings)
    with connected(url) as broker:
        _echo(_existing(broker, queue, group).map(wanted))


def _mapping(text: str) -> tuple[str, list[int]]:
    member, _, numbers = text.partition("=")
    try:
        return member, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write it like m1=0,2") from None


@app.command()
def unmap(queue: QueueName, group: GroupName, url: Url = None) -> None:
    """Remove the mappings: nobody consumes until members are added."""
    with connected(url) as broker:
        _echo(_existing(broker, queue, group).unmap())


@app.command()
def members(queue: QueueName, group: GroupName, url: Url = None, as_json: Json = False) -> None:
    """List the members and which of them are active."""
    with connected(url) as broker:
        found = _existing(broker, queue, group)
        active = found.active()
        names = found.members()
    if as_json:
        return typer.echo(shown.line([{"member": m, "active": active.get(m)} for m in names]))
    for name in names:
        typer.echo(plain.text(f"{name}  {active.get(name, 'no active instance')}"))


@app.command("step-down")
def step_down(queue: QueueName, group: GroupName, member: Member, url: Url = None) -> None:
    """Have a standby take over from a member's active instance; one that hangs is fenced."""
    with connected(url) as broker:
        if not _existing(broker, queue, group).step_down(member):
            raise marq.QueueError(f"member {member!r} has no active instance")
    typer.echo(f"{member} stepped down")


@app.command()
def consume(
    queue: QueueName,
    group: GroupName,
    member: Member,
    limit: Annotated[int, typer.Option(min=0, help="stop after this many; 0: never")] = 0,
    url: Url = None,
) -> None:
    """Print the messages of a member as JSON, one a line, and ack each."""
    with connected(url) as broker, stop_asked() as asked:
        found = _existing(broker, queue, group)
        logs.show(logging.WARNING)
        left = limit

        def handle(delivery: Any) -> None:
            nonlocal left
            if asked.is_set():
                return
            typer.echo(shown.line(_delivered(delivery)))
            delivery.double_ack()
            left -= 1
            if limit and not left:
                asked.set()

        with found.consume(member, handle) as instance:
            while not asked.wait(0.1) and not instance.ended:
                pass
        instance.wait()


def _delivered(delivery: Any) -> dict[str, Any]:
    return {
        **shown.delivery(delivery),
        "partition": delivery.partition,
        "offset": delivery.offset,
        "fence": delivery.fence,
    }


def _echo(names: list[str]) -> None:
    typer.echo(f"members: {', '.join(names) or 'nobody'}")
