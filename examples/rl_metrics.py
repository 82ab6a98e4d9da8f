"""Metrics of reinforcement learning: the step's scalars, what happens within groups, and the scores of a verifier.

    python examples/rl_metrics.py
"""

import random

from nilometer.metrics import GRPOMetricsTracker, MetricTracker, ScoreDistributionTracker


def main() -> None:
    random.seed(3)

    tracker = MetricTracker()
    for step in range(200):
        tracker.update("loss", 2 / (1 + 0.05 * step), step=step)
    print(f"loss: {tracker.get_mean('loss'):.3f} over all steps, {tracker.get_mean('loss', window=20):.3f} over the last 20")

    grpo = GRPOMetricsTracker(reward_max=1.0)
    for step in range(20):
        rewards = [[float(random.random() < 0.1 + 0.04 * step) for _ in range(4)] for _ in range(8)]
        mean = sum(map(sum, rewards)) / 32
        grpo.update_grpo_step(step=step, policy_loss=0.5 - 0.01 * step, mean_reward=mean, reward_components={"format": 1.0, "answer": mean}, kl_divergence=0.002 * step)
        grpo.update_group_rewards(rewards, step=step)
    groups = grpo.get_reward_distribution(window=40)
    print(f"mean reward: {grpo.get_mean('mean_reward', window=5):.2f} lately, KL {grpo.get_last('kl_divergence'):.3f}")
    print(f"groups without a signal: {100 * groups['frac_reward_zero_std']:.0f} %")
    print(f"solved by one of four answers: {100 * groups['pass_at_k'][4]:.0f} %")

    scores = ScoreDistributionTracker()
    for _ in range(10):
        scores.update([random.choice([0.0, 0.5, 1.0, None]) for _ in range(5)])
    found = scores.get_distribution()
    print(f"verifier: {found['valid_count']} valid scores, {100 * found['invalid_rate']:.0f} % invalid, mean {found['mean_score']:.2f}")


if __name__ == "__main__":
    main()
