use std::os::unix::fs::symlink;

use super::*;
use crate::gpu::GpuProcess;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// A made-up `/proc` inside a container.
struct Container {
    folder: TempDir,
}

impl Container {
    fn new() -> Container {
        let container = Container {
            folder: tempfile::tempdir().unwrap(),
        };
        let namespaces = container.folder.path().join("self/ns");
        std::fs::create_dir_all(&namespaces).unwrap();
        symlink("pid:[4026532180]", namespaces.join("pid")).unwrap();
        container
    }

    /// A process with these files open.
    fn process(&self, pid: u32, parent: u32, command: &str, files: &[&str]) {
        let folder = self.folder.path().join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        for (number, file) in files.iter().enumerate() {
            let link = folder.join("fd").join(number.to_string());
            std::fs::remove_file(&link).ok();
            symlink(file, link).unwrap();
        }
        let zeros = "0 ".repeat(48);
        let stat = format!("{pid} (python) S {parent} {zeros}");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), command).unwrap();
    }

    fn owners(&self) -> GpuOwners {
        GpuOwners::new(&Roots {
            proc: self.folder.path().to_owned(),
            ..Roots::default()
        })
    }
}

const CUDA: &[&str] = &[
    "/dev/nvidiactl",
    "/dev/nvidia0",
    "/dev/nvidia-uvm",
    "/tmp/x",
];
const NOTHING: &[&str] = &["/dev/null"];

fn reading(processes: &[(u32, u64)]) -> GpuReading {
    let processes = processes.iter().map(|(pid, bytes)| GpuProcess {
        pid: *pid,
        bytes: Some(*bytes).filter(|bytes| *bytes > 0),
    });
    GpuReading {
        processes: Some(processes.collect()),
        ..GpuReading::default()
    }
}

/// Updates a second later each time, and gives the share of every GPU.
fn shares(
    owners: &mut GpuOwners,
    readings: &[GpuReading],
    job: &[u32],
    second: u64,
) -> Vec<GpuShare> {
    owners.update(readings.iter(), job, second * 1_000_000_000);
    readings
        .iter()
        .map(|reading| owners.share(reading, job))
        .collect()
}

#[test]
fn outside_of_containers_the_numbers_are_ours() {
    let container = Container::new();
    let namespace = container.folder.path().join("self/ns/pid");
    std::fs::remove_file(&namespace).unwrap();
    symlink(crate::pid_namespace::FIRST_NAMESPACE, namespace).unwrap();
    let mut owners = container.owners();
    let gpus = [reading(&[(10, GIB), (11, 2 * GIB), (99, 5 * GIB)])];
    assert_eq!(
        shares(&mut owners, &gpus, &[10, 11], 0),
        [GpuShare::Bytes(3 * GIB)]
    );
}

#[test]
fn a_driver_that_translates_is_believed_when_the_process_holds_a_gpu() {
    let container = Container::new();
    container.process(10, 1, "train", CUDA);
    container.process(20, 1, "other", CUDA);
    let gpus = [reading(&[(10, GIB), (20, 7 * GIB), (0, GIB)])];
    let mut owners = container.owners();
    assert_eq!(shares(&mut owners, &gpus, &[10], 0), [GpuShare::Bytes(GIB)]);
}

#[test]
fn a_number_of_the_machine_that_is_by_chance_one_of_ours_is_not_taken_for_it() {
    let container = Container::new();
    container.process(10, 1, "shell", NOTHING);
    let gpus = [reading(&[(10, GIB)])];
    let mut owners = container.owners();
    assert_eq!(shares(&mut owners, &gpus, &[10], 0), [GpuShare::Bytes(0)]);
}

#[test]
fn whoever_was_there_before_the_job_used_cuda_is_a_stranger_and_the_next_one_is_the_job() {
    let container = Container::new();
    container.process(10, 1, "train", NOTHING);
    let mut owners = container.owners();
    let before = [reading(&[(7001, 3 * GIB)])];
    assert_eq!(shares(&mut owners, &before, &[10], 0), [GpuShare::Bytes(0)]);
    container.process(10, 1, "train", CUDA);
    let after = [reading(&[(7001, 3 * GIB), (7777, GIB)])];
    assert_eq!(
        shares(&mut owners, &after, &[10], 1),
        [GpuShare::Bytes(GIB)]
    );
    let grown = [reading(&[(7001, 3 * GIB), (7777, 2 * GIB)])];
    assert_eq!(
        shares(&mut owners, &grown, &[10], 2),
        [GpuShare::Bytes(2 * GIB)]
    );
}

#[test]
fn more_strangers_than_can_be_told_apart_leave_the_share_unknown() {
    let container = Container::new();
    container.process(10, 1, "train", CUDA);
    let mut owners = container.owners();
    let gpus = [reading(&[(7001, 3 * GIB), (7777, GIB)]), reading(&[])];
    assert_eq!(
        shares(&mut owners, &gpus, &[10], 0),
        [GpuShare::Unplaced, GpuShare::Bytes(0)]
    );
}

#[test]
fn somebody_else_in_the_container_with_cuda_open_leaves_it_unknown() {
    let container = Container::new();
    container.process(10, 1, "train", CUDA);
    container.process(20, 1, "other", CUDA);
    let mut owners = container.owners();
    let gpus = [reading(&[(7777, GIB)])];
    assert_eq!(shares(&mut owners, &gpus, &[10], 0), [GpuShare::Unplaced]);
}

#[test]
fn somebody_else_who_was_there_before_the_job_used_cuda_does_no_harm() {
    let container = Container::new();
    container.process(10, 1, "train", NOTHING);
    container.process(20, 1, "other", CUDA);
    let mut owners = container.owners();
    let before = [reading(&[(7001, 3 * GIB)])];
    assert_eq!(shares(&mut owners, &before, &[10], 0), [GpuShare::Bytes(0)]);
    container.process(10, 1, "train", CUDA);
    let after = [reading(&[(7001, 3 * GIB), (7777, GIB)])];
    assert_eq!(
        shares(&mut owners, &after, &[10], 1),
        [GpuShare::Bytes(GIB)]
    );
}

#[test]
fn ranks_with_forked_data_workers_are_told_from_them() {
    let container = Container::new();
    container.process(10, 1, "torchrun", NOTHING);
    for rank in [11, 12] {
        container.process(rank, 10, &format!("train {rank}"), CUDA);
        for worker in 0..3 {
            container.process(rank * 100 + worker, rank, &format!("train {rank}"), CUDA);
        }
    }
    let job = [10, 11, 12, 1100, 1101, 1102, 1200, 1201, 1202];
    let mut owners = container.owners();
    let gpus = [reading(&[(7001, GIB)]), reading(&[(7002, 2 * GIB)])];
    assert_eq!(
        shares(&mut owners, &gpus, &job, 0),
        [GpuShare::Bytes(GIB), GpuShare::Bytes(2 * GIB)]
    );
}

#[test]
fn a_process_that_is_gone_is_not_ours_when_its_number_comes_back() {
    let container = Container::new();
    container.process(10, 1, "train", CUDA);
    let mut owners = container.owners();
    let gpus = [reading(&[(7777, GIB)])];
    assert_eq!(shares(&mut owners, &gpus, &[10], 0), [GpuShare::Bytes(GIB)]);
    assert_eq!(shares(&mut owners, &gpus, &[11], 1), [GpuShare::Bytes(0)]);
}

#[test]
fn numbers_of_an_inner_namespace_are_found_by_nspid() {
    let container = Container::new();
    container.process(5000, 1, "train", CUDA);
    let status = container.folder.path().join("5000/status");
    std::fs::write(status, "Name:\tpython\nNSpid:\t5000\t12\t3\n").unwrap();
    let mut owners = container.owners();
    let gpus = [reading(&[(12, GIB)])];
    assert_eq!(
        shares(&mut owners, &gpus, &[5000], 0),
        [GpuShare::Bytes(GIB)]
    );
}

#[test]
fn memory_that_the_driver_does_not_tell_is_not_zero() {
    let container = Container::new();
    container.process(10, 1, "train", CUDA);
    let mut owners = container.owners();
    let untold = GpuReading::default();
    let gpus = [reading(&[(10, 0)]), untold];
    assert_eq!(
        shares(&mut owners, &gpus, &[10], 0),
        [GpuShare::Untold, GpuShare::Untold]
    );
}

#[test]
fn a_driver_that_names_nobody_while_the_job_holds_cuda_is_not_believed() {
    let container = Container::new();
    container.process(10, 1, "train", NOTHING);
    let mut owners = container.owners();
    let gpus = [reading(&[])];
    assert_eq!(shares(&mut owners, &gpus, &[10], 0), [GpuShare::Bytes(0)]);
    container.process(10, 1, "train", CUDA);
    assert_eq!(shares(&mut owners, &gpus, &[10], 5), [GpuShare::Untold]);
}
