//! Every table with fixed columns: a struct for its rows, which is also the list of its columns.
//!
//! The order of the fields is the order in the files. A new column goes to the end; readers ask by name.

use crate::typed_row::typed_row;

typed_row! {
    /// The process tree, each tick.
    TreeRow {
        /// Distinct pages that the tree holds, each counted once and in full, whoever else maps it.
        memory_bytes: gauge Bytes,
        /// The plain sum of resident memory, which counts shared pages once for each process.
        rss_bytes: gauge Bytes,
        /// The largest total that the kernel's own marks of the processes prove since the row before.
        high_water_bytes: gauge Bytes,
        /// Memory in swap.
        swap_bytes: gauge Bytes,
        /// CPU time; processes that ended stay counted.
        cpu_nanos: counter Nanos,
        /// Processes alive.
        processes: gauge Count,
        /// Those of them whose shared memory was measured.
        pss_processes: gauge Count,
    }
}

typed_row! {
    /// What changes quickly in a process, each tick on which it changed.
    ProcessRow {
        /// Resident memory; pages shared with others count in full.
        rss_bytes: gauge Bytes,
        /// CPU time of all threads, user and system.
        cpu_nanos: counter Nanos,
        /// What it adds to the tree: pages that several processes hold count for the oldest of them.
        memory_bytes: gauge Bytes,
        /// Its address space, touched or not (`VmSize`): what `RLIMIT_AS` limits.
        virtual_bytes: gauge Bytes,
        /// What it holds: resident memory with each page counted once, however often the process has mapped it.
        distinct_bytes: gauge Bytes,
    }
}

typed_row! {
    /// What is read about once a second in a process.
    ProcessDetailRow {
        /// The kernel's high-water mark (`VmHWM`).
        peak_rss_bytes: gauge Bytes,
        /// Proportional set: shared pages divided by their number of users.
        pss_bytes: gauge Bytes,
        /// Unique set: what would be freed if this process ended.
        uss_bytes: gauge Bytes,
        /// Memory in swap.
        swap_bytes: gauge Bytes,
        /// Threads.
        threads: gauge Count,
        /// Open file descriptors.
        open_files: gauge Count,
        /// Page faults without I/O.
        minor_faults: counter Count,
        /// Page faults with I/O.
        major_faults: counter Count,
        /// Bytes read from storage.
        read_bytes: counter Bytes,
        /// Bytes written to storage.
        written_bytes: counter Bytes,
        /// The kernel's high-water mark of the address space (`VmPeak`).
        peak_virtual_bytes: gauge Bytes,
        /// Private writable addresses, touched or not (`VmData`): what `RLIMIT_DATA` limits.
        data_bytes: gauge Bytes,
    }
}

typed_row! {
    /// A memory cgroup.
    CgroupRow {
        /// Everything that is charged to it.
        usage_bytes: gauge Bytes,
        /// Usage less inactive file pages; shared memory stays in.
        working_set_bytes: gauge Bytes,
        /// The kernel's own peak of the usage.
        peak_bytes: gauge Bytes,
        /// Its limit.
        limit_bytes: gauge Bytes,
        /// Anonymous memory.
        anon_bytes: gauge Bytes,
        /// Pages of files, shared memory among them.
        file_bytes: gauge Bytes,
        /// Shared memory.
        shmem_bytes: gauge Bytes,
        /// Memory in swap.
        swap_bytes: gauge Bytes,
        /// Processes that the kernel killed for memory.
        oom_kills: counter Count,
        /// How often usage hit the limit.
        limit_hits: counter Count,
        /// 1 where it holds nobody but this job, 0 where it does.
        owned: gauge Count,
        /// 1 where a process of this job is in it or below, 0 where none is; absent where no job is watched.
        holds_job: gauge Count,
    }
}

typed_row! {
    /// The machine.
    HostRow {
        /// Memory that the kernel manages.
        total_bytes: gauge Bytes,
        /// What new programs can get without swapping.
        available_bytes: gauge Bytes,
        /// Swap space.
        swap_total_bytes: gauge Bytes,
        /// Swap space in use.
        swap_used_bytes: gauge Bytes,
        /// Size of `/dev/shm`.
        shm_total_bytes: gauge Bytes,
        /// What is used of `/dev/shm`.
        shm_used_bytes: gauge Bytes,
        /// Time in which some task waited for memory.
        pressure_some_nanos: counter Nanos,
        /// Time in which all tasks waited for memory.
        pressure_full_nanos: counter Nanos,
        /// Processes that the kernel killed for memory.
        oom_kills: counter Count,
    }
}

typed_row! {
    /// A GPU by its driver's account. A row without any value says that the GPU is not read from here on.
    GpuRow {
        /// Everybody's memory, without what the driver keeps for itself.
        used_bytes: gauge Bytes,
        /// Its memory.
        total_bytes: gauge Bytes,
        /// Held by processes of the tree, contexts included.
        job_bytes: gauge Bytes,
        /// The share of the driver's last sampling period in which some kernel ran.
        utilization: gauge Ratio,
        /// Power draw in whole watts. This and what follows is read about once a second.
        power_watts: gauge Plain,
        /// The power limit in force.
        power_limit_watts: gauge Plain,
        /// Temperature of the chip.
        temperature_celsius: gauge Plain,
        /// Clock of the compute units.
        sm_clock_mhz: gauge Plain,
        /// Clock of the memory.
        memory_clock_mhz: gauge Plain,
        /// 1 while clocks are lowered to stay within the power limit, else 0.
        throttled_by_power: gauge Count,
        /// 1 while clocks are lowered because the GPU or its memory is too hot, else 0.
        throttled_by_heat: gauge Count,
        /// 1 while the hardware lowers clocks for another reason, such as the power supply's brake, else 0.
        throttled_by_hardware: gauge Count,
        /// Memory errors that could not be corrected, since the driver was loaded.
        uncorrected_ecc_errors: counter Count,
        /// Sent over all NVLinks since the driver was loaded.
        nvlink_sent_bytes: counter Bytes,
        /// Received over all NVLinks since the driver was loaded.
        nvlink_received_bytes: counter Bytes,
    }
}

typed_row! {
    /// The recorder's own cost.
    RecorderRow {
        /// The largest resident memory of the recorder so far.
        rss_bytes: gauge Bytes,
        /// Its CPU time.
        cpu_nanos: counter Nanos,
        /// Samples taken.
        ticks: counter Count,
        /// Samples that came late.
        late_ticks: counter Count,
        /// Samples that could not be stored.
        dropped_samples: counter Count,
        /// Time between two samples.
        interval_nanos: gauge Nanos,
    }
}

typed_row! {
    /// A phase of the training step, each time that it ended.
    PhaseRow {
        /// How long it took.
        duration_nanos: gauge Nanos,
    }
}

typed_row! {
    /// A phase that is timed in some steps only.
    SampledPhaseRow {
        /// How long it took.
        duration_nanos: gauge Nanos,
        /// The number of steps since the one timed before, which the row stands for.
        weight: gauge Count,
    }
}

typed_row! {
    /// A phase whose GPU memory was looked at when it began and when it ended.
    GpuPhaseRow {
        /// How long it took.
        duration_nanos: gauge Nanos,
        /// The number of steps since the one timed before, which the row stands for.
        weight: gauge Count,
        /// The most memory in tensors while it ran was this much at least.
        peak_at_least_bytes: gauge Bytes,
        /// And this much at most; the peak is known where both are the same.
        peak_at_most_bytes: gauge Bytes,
    }
}

typed_row! {
    /// What training got through: totals since a tracker began to count in the run.
    ThroughputRow {
        /// Batches.
        batches: counter Count,
        /// Samples.
        samples: counter Count,
        /// Tokens.
        tokens: counter Count,
        /// The time that counts, without pauses such as an evaluation.
        counted_nanos: counter Nanos,
    }
}

typed_row! {
    /// GPU memory of one process by PyTorch's account.
    TorchMemoryRow {
        /// Memory in tensors.
        allocated_bytes: gauge Bytes,
        /// Memory that the allocator holds.
        reserved_bytes: gauge Bytes,
        /// The largest `allocated_bytes` so far.
        peak_allocated_bytes: gauge Bytes,
        /// The largest `reserved_bytes` so far.
        peak_reserved_bytes: gauge Bytes,
        /// What is free on the device.
        device_free_bytes: gauge Bytes,
        /// Memory of the device.
        device_total_bytes: gauge Bytes,
        /// What this process may take of it (`set_per_process_memory_fraction`), where that is less.
        allowed_bytes: gauge Bytes,
        /// Free pieces of blocks that are partly in use.
        inactive_split_bytes: gauge Bytes,
        /// How often the allocator gave back what it kept and tried again.
        alloc_retries: counter Count,
        /// Allocations that failed.
        ooms: counter Count,
    }
}
