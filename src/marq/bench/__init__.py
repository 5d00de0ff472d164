"""The benchmark: marq beside the bare client and Kafka's share groups, on a broker of its own.

    marq bench --quick

Every measurement runs in a process of its own, so that processor time and memory are its own. All
variants of a case read the very same topic; rounds are interleaved, medians are compared round by
round. Nothing here asserts a speed.
"""
