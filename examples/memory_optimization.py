"""Four ways to make training fit: cleaning up, optimized training, alerts of your own, and a leaner model.

    python examples/memory_optimization.py
"""

import torch
from torch import nn

from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem, TrainingMemoryConfig, TrainingMemoryOptimizer


class TacticalMARLSystem(nn.Module):
    """Several agents that share an encoder of attention blocks."""

    def __init__(self, agents=3, features=64, layers=4):
        super().__init__()
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(features, 4, 4 * features, batch_first=True) for _ in range(layers))
        self.heads = nn.ModuleList(nn.Linear(features, 5) for _ in range(agents))
        # Lightning's name for an input that the model can be run on; without it, pass a sample.
        self.example_input_array = torch.randn(8, 32, features)

    def forward(self, observations):
        hidden = observations
        for layer in self.encoder:
            hidden = layer(hidden)
        return torch.stack([head(hidden[:, -1]) for head in self.heads])


def basic_memory_optimization():
    # Initialize with default config
    with MemoryOptimizationSystem() as optimizer:
        # Run system optimization
        results = optimizer.optimize_memory_usage()
        print(f"Memory saved: {results['memory_saved_mb']} MB")

        # Get current status
        report = optimizer.get_comprehensive_report()
        print(f"Current memory usage: {report['current_memory_usage']['memory_percent']:.1%}")


def training_with_memory_optimization():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    inputs = torch.randn(256, 20)
    dataset = torch.utils.data.TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    torch_optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_function = nn.CrossEntropyLoss()

    # Configure training optimization
    config = TrainingMemoryConfig(
        initial_batch_size=32,
        enable_mixed_precision=True,
        enable_gradient_checkpointing=True,
        num_workers=0,
    )

    # Run optimized training
    with TrainingMemoryOptimizer(config) as optimizer:
        results = optimizer.optimize_training_loop(
            model=model,
            dataset=dataset,
            optimizer=torch_optimizer,
            num_epochs=10,
            loss_fn=loss_function,
        )

        print(f"Training completed with {results['final_memory_usage']:.2f} GB memory usage")
        print(f"Loss: {results['epoch_losses'][0]:.3f} -> {results['epoch_losses'][-1]:.3f}")


def custom_alert_handling():
    def custom_alert_handler(alert_data):
        alert_type = alert_data["type"]

        if alert_type == "critical_memory":
            print("CRITICAL: Memory usage is too high!")
            # Custom emergency actions

        elif alert_type == "warning_memory":
            print("WARNING: Memory usage is elevated")
            # Custom warning actions

    # A budget that this program is above already
    config = MemoryOptimizationConfig(max_memory_usage_gb=0.01, monitoring_interval=0.1)

    # Add custom alert handler
    with MemoryOptimizationSystem(config) as optimizer:
        optimizer.monitor.add_alert_callback(custom_alert_handler)

        # Continue with training...


def model_architecture_optimization():
    # Create model
    model = TacticalMARLSystem()

    # Optimize model architecture
    with MemoryOptimizationSystem() as optimizer:
        optimization_results = optimizer.optimize_model_architecture(model)

        print(f"Memory saved: {optimization_results['memory_saved_mb']} MB")
        print(f"Optimizations applied: {optimization_results['optimizations_applied']}")


if __name__ == "__main__":
    basic_memory_optimization()
    training_with_memory_optimization()
    custom_alert_handling()
    model_architecture_optimization()
