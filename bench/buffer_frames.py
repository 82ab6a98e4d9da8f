"""Real frames of Atari games: a random policy with sticky actions, 84 x 84 grey pixels, as DQN has them. Kept in target/ once made."""

from pathlib import Path

import numpy as np
from settings import REPOSITORY

GAMES = ["Breakout", "Seaquest", "MsPacman"]
FOLDER = REPOSITORY / "target" / "buffer-frames"
FRAMES = 20_001


def collect(game: str) -> Path:
    """The file with the game's frames and which of them begin an episode."""
    path = FOLDER / f"{game}.npz"
    if path.exists():
        return path
    import ale_py
    import cv2
    import gymnasium

    gymnasium.register_envs(ale_py)
    environment = gymnasium.make(f"ALE/{game}-v5", obs_type="grayscale", frameskip=1, repeat_action_probability=0.25)
    random = np.random.default_rng(0)
    screen, _ = environment.reset(seed=1)
    frames, starts = [_shrink(cv2, screen, screen)], [True]
    while len(frames) < FRAMES:
        action = int(random.integers(environment.action_space.n))
        before = screen
        for _ in range(4):
            before, is_over = screen, False
            screen, _, is_terminated, is_truncated, _ = environment.step(action)
            if is_terminated or is_truncated:
                is_over = True
                break
        frames.append(_shrink(cv2, before, screen))
        starts.append(False)
        if is_over:
            screen, _ = environment.reset()
            frames.append(_shrink(cv2, screen, screen))
            starts.append(True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    np.savez(path, frames=np.stack(frames[:FRAMES]), starts=np.array(starts[:FRAMES]))
    return path


def _shrink(cv2, before: np.ndarray, screen: np.ndarray) -> np.ndarray:
    return cv2.resize(np.maximum(before, screen), (84, 84), interpolation=cv2.INTER_AREA)
