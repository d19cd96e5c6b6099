"""FLamby's benchmarks of heart disease and of breast-cancer survival, by FLamby's own protocol, with our methods.

Reference: Ogier du Terrail et al., FLamby: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic
Healthcare Settings, NeurIPS 2022 Datasets and Benchmarks.
"""

from manyheads.experiments.flamby.benchmark import POOLED, Benchmark
from manyheads.experiments.flamby.cells import Cell, compared, published
from manyheads.experiments.flamby.heart import heart_benchmark
from manyheads.experiments.flamby.tcga import tcga_benchmark

__all__ = ["POOLED", "Benchmark", "Cell", "compared", "heart_benchmark", "published", "tcga_benchmark"]
