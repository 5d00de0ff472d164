"""Delayed messages: sent now, handed out later, cancelled in between."""

from datetime import timedelta

import marq

with marq.connect("memory://") as broker:
    reminders = broker.queue("reminders")

    sent = reminders.send("pay invoice 7", delay="1d")
    assert sent.due is not None
    reminders.send("last call", at=sent.due + timedelta(hours=2))
    never = reminders.send("never mind", delay="7d")

    print("cancelled:", reminders.cancel(never))
    print("now:", [delivery.payload for delivery in reminders.receive(max=10)])

    for wait in ("1d", "2h", "7d"):
        broker.clock.advance(wait)  # on Kafka you would have to wait
        for delivery in reminders.receive(max=10):
            print(f"{wait} later:", delivery.payload)
            delivery.ack()

    print("left:", reminders.stats().delayed)
