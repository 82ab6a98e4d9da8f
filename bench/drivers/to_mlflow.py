"""MLflow with its file store, without system metrics."""

import os

from session import NAMES, Session


def load():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # it would rather have a database
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow

    return mlflow


def begin(mlflow, folder: str) -> Session:
    mlflow.set_tracking_uri(f"file://{folder}")
    mlflow.set_experiment("bench")
    mlflow.start_run(log_system_metrics=False)
    return Session(mlflow.log_metrics, mlflow.end_run)


def readable_steps(folder: str) -> int:
    client = load().MlflowClient(f"file://{folder}")
    experiment = client.get_experiment_by_name("bench")
    (run,) = client.search_runs([experiment.experiment_id])
    return min(len({point.step for point in client.get_metric_history(run.info.run_id, name)}) for name in NAMES)
