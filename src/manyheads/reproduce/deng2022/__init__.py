"""Deng, Kamani, Mahdavi, Local SGD Optimizes Overparameterized Neural Networks in Polynomial Time, AISTATS 2022."""
