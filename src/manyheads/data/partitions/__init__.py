"""Partitions: how a pool of labelled samples is divided among clients.

``partitioners`` are the general ones, ``recipes`` those of papers' experiments; ``federate`` applies either to a pool.
"""
