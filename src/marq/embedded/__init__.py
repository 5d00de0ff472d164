"""A real Kafka and its tracker on this machine, for development, tests and demos.

    runtime = embedded.start()             # joins the one that runs, else starts it detached
    runtime.bootstrap_servers              # "127.0.0.1:24817", the same after down and up
    embedded.status().to_json()
    embedded.stop()

Every function takes a directory; without one it is the user's default runtime.
`jars.resolve("spark")` gives the checked jars of Spark's Kafka connector.
"""

from marq.embedded.control import Runtime, start, status, stop
from marq.embedded.state import BrokerStatus, Status, TrackerStatus

__all__ = ["BrokerStatus", "Runtime", "Status", "TrackerStatus", "start", "status", "stop"]
