"""Partitions: how a pool of labelled samples is divided among clients.

``partitioners`` holds those of one idea, ``recipes`` those of the papers' experiments.
"""
