#!/usr/bin/env python3
"""A small network learns the classes of a feed, with JAX: python3 train_jax.py FEED"""
import argparse

import jax
import jax.numpy as jnp

import dataload

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("feed")
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--classes", type=int, default=10)
options = parser.parse_args()


def first_weights(key):
    sizes = [4 * 4 * 3, 64, options.classes]
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(one, (n, m)) * (2 / n) ** 0.5, jnp.zeros(m)) for one, n, m in zip(keys, sizes, sizes[1:])]


def loss_of(weights, image, label):
    rows, height, width, channels = image.shape
    parts = image.astype(jnp.float32).reshape(rows, 4, height // 4, 4, width // 4, channels).mean(axis=(2, 4))
    (first, one), (second, two) = weights
    hidden = jax.nn.relu((parts.reshape(rows, -1) / 127.5 - 1) @ first + one)
    return -jax.nn.log_softmax(hidden @ second + two)[jnp.arange(rows), label].mean()


@jax.jit
def train_step(weights, image, label):
    loss, slopes = jax.value_and_grad(loss_of)(weights, image, label)
    return jax.tree.map(lambda weight, slope: weight - 0.05 * slope, weights, slopes), loss


weights = first_weights(jax.random.key(0))
with dataload.Loader(options.feed, options.batch, as_="jax") as loader:
    step = 0
    for epoch in range(options.epochs):
        for batch in loader:
            weights, loss = train_step(weights, batch["image"], batch["label"])
            step += 1
            print(f"step {step} epoch {epoch} loss {loss:.9f}", flush=True)
