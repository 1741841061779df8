#!/usr/bin/env python3
"""A linear classifier learns the classes of a feed, with NumPy alone: python3 train_numpy.py FEED"""
import argparse

import numpy

import dataload

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("feed")
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--classes", type=int, default=10)
options = parser.parse_args()
SIDE = 4  # of the small picture that is learned from


def small(image):
    """Means of SIDE x SIDE parts, from -1 to 1."""
    rows, height, width, channels = image.shape
    parts = image.reshape(rows, SIDE, height // SIDE, SIDE, width // SIDE, channels)
    return parts.mean(axis=(2, 4), dtype=numpy.float32).reshape(rows, -1) / 127.5 - 1


weights = numpy.zeros((SIDE * SIDE * 3, options.classes), numpy.float32)
with dataload.Loader(options.feed, options.batch, as_="numpy") as loader:
    step = 0
    for epoch in range(options.epochs):
        for batch in loader:
            inputs, labels = small(batch["image"]), batch["label"]
            logits = inputs @ weights
            chances = numpy.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            right = numpy.arange(len(labels)), labels
            loss = -numpy.log(chances[right]).mean()
            chances[right] -= 1
            weights -= 0.1 * inputs.T @ chances / len(labels)
            step += 1
            print(f"step {step} epoch {epoch} loss {loss:.9f}", flush=True)
