#!/usr/bin/env python3
"""Training on a folder of classes of pictures, as it is usually written: python3 imagenet_before.py"""
import os
import time

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BATCH, EPOCHS = 64, int(os.environ.get("EPOCHS", 90))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = datasets.ImageFolder("train", transforms.Compose([
    transforms.RandomResizedCrop(224),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
]))
loader = DataLoader(dataset, BATCH, shuffle=True, num_workers=len(os.sched_getaffinity(0)), pin_memory=device.type == "cuda",
                    persistent_workers=True)
model = torchvision.models.resnet18().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

for epoch in range(EPOCHS):
    start, seen = time.monotonic(), 0
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(labels)
    print(f"epoch {epoch}: {seen / (time.monotonic() - start):.1f} images/s, loss {loss.item():.3f}", flush=True)
