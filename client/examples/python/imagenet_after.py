#!/usr/bin/env python3
"""Training on a folder of classes of pictures, by dataloadd: python3 imagenet_after.py"""
import os
import time

import torch
import torchvision

import dataload

BATCH, EPOCHS = 64, int(os.environ.get("EPOCHS", 90))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = dataload.Loader("imagenet", BATCH)
model = torchvision.models.resnet18().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

for epoch in range(EPOCHS):
    start, seen = time.monotonic(), 0
    for batch in loader:
        images, labels = batch["image"], batch["label"]
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(labels)
    print(f"epoch {epoch}: {seen / (time.monotonic() - start):.1f} images/s, loss {loss.item():.3f}", flush=True)
