import marq

with marq.connect("memory://") as broker:
    orders = broker.queue("orders")
    orders.send({"order": 7})

    for delivery in orders.receive():
        print("got", delivery.payload)
        delivery.ack()
