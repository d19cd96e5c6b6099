"""Federations of real sites: the same rounds as in the simulator, across machines that never pool their data.

A *coordinator* runs a study; each *site* keeps its table and its personal states, and answers messages. What carries the
messages is Flower (:mod:`manyheads.federate.flower`); nothing else here knows of it.
"""
