#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small convolutional network on Fashion-MNIST: ordinary PyTorch, one process. fashion_stepgate.py is the same for several."""
import argparse
import gzip
import json
import os

import numpy as np
import torch

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.002),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.002),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.001),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="folder of the four files (dataset-fashion-mnist)")
    parser.add_argument("--images", type=int, default=6000, help="how many to train on")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=60, help="images of a step, all workers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="momentum")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="float64: no rounding hides what is to be compared")
    parser.add_argument("--json", help="file for the result: losses, one per step, and the accuracy on the test images")
    return parser.parse_args()


def read(folder, part, count=None):
    """Images, from 0 to 1, and their labels."""
    with gzip.open(os.path.join(folder, part + "-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(16 + count * 784 if count else -1), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(folder, part + "-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)[:len(images)]
    return torch.from_numpy(images / 255).to(torch.get_default_dtype()), torch.from_numpy(labels.astype(np.int64))


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 5, stride=2), torch.nn.ReLU(),
                               torch.nn.Flatten(), torch.nn.Linear(256, 10))


def batches(images, labels, size, generator):
    for chosen in torch.randperm(len(images), generator=generator).split(size):
        yield images[chosen], labels[chosen]


def save(path, result):
    with open(f"{path}.{os.getpid()}", "w", encoding="ascii") as file:
        json.dump(result, file)
    os.replace(f"{path}.{os.getpid()}", path)


def main():
    given = options()
    torch.set_default_dtype(getattr(torch, given.dtype))
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    train, test = read(given.data, "train", given.images), read(given.data, "t10k", 1000)
    net, criterion, losses = network(), torch.nn.CrossEntropyLoss(), []
    optimizer = OPTIMIZERS[given.optimizer](net.parameters())
    generator = torch.Generator().manual_seed(given.seed)
    for _ in range(given.epochs):
        for images, labels in batches(*train, given.batch, generator):
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with torch.no_grad():
        accuracy = (net(test[0]).argmax(1) == test[1]).double().mean().item()
    print(f"{len(losses)} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}, accuracy {accuracy:.3f}")
    if given.json:
        save(given.json, {"losses": losses, "accuracy": accuracy})


main()
