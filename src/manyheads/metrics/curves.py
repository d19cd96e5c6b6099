import numpy as np


def roc(s, y):
    from sklearn.metrics import roc_curve

    f, t, _ = roc_curve(y, s)
    return f, t


def calibration(p, y, bins):
    out = []
    for rows in np.array_split(np.argsort(p), bins):
        if len(rows):
            out.append((float(p[rows].mean()), float(y[rows].mean()), 0.0, 1.0, len(rows)))
    return out


def confusion(own, classes):
    m = np.zeros((classes, classes), int)
    np.add.at(m, (own.labels, own.predicted), 1)
    return m
