"""Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated Learning, 2021."""
