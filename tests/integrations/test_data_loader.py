"""Points from the workers of a DataLoader land in the same run, however the workers are started."""

import pytest
import torch

import nilometer


class Squares(torch.utils.data.Dataset):
    """Logs what it loads, in the process that loads it."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        nilometer.log({"loaded": float(index)}, step=index)
        return torch.tensor(float(index * index))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_log_into_the_run_of_their_parent(recorded, start):
    nilometer.log({"parent": 1.0}, step=0)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=start)
    total = 0.0
    for step, batch in enumerate(loader):
        total += float(batch.sum())
        nilometer.log({"parent": total}, step=step + 1)
    run = recorded()
    assert sorted(run.series("loaded").value.tolist()) == [float(index) for index in range(32)]
    assert run.series("parent").value.tolist()[-1] == sum(index * index for index in range(32))
    assert len({path.name.split(".")[0] for path in run.path.glob("python-*")}) == 3
