"""Fallah, Mokhtari, Ozdaglar, Personalized Federated Learning with Theoretical Guarantees, NeurIPS 2020."""
