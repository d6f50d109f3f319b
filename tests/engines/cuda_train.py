"""A training on a GPU as people write one: a loader with workers, pinned memory, and a model that learns."""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(1)
    inputs = torch.randn(512, 8)
    data = TensorDataset(inputs, inputs @ torch.arange(8.0).unsqueeze(1))
    loader = DataLoader(data, batch_size=64, num_workers=2, pin_memory=True)
    device = torch.device("cuda", 0)
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        for features, wanted in loader:
            loss = torch.nn.functional.mse_loss(model(features.to(device)), wanted.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(
        f"on {torch.cuda.device_count()} of {os.environ['CUDA_VISIBLE_DEVICES']}: {losses[0]:.3f} to {losses[-1]:.6f}"
    )


if __name__ == "__main__":
    main()
