"""Collins, Hassani, Mokhtari, Shakkottai, FedAvg with Fine Tuning: Local Updates Lead to Representation Learning, 2022."""
