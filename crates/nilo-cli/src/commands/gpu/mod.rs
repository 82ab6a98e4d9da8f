//! `nilo gpu`: what a GPU is, what is in use of it, how fast it is, and which well-known models fit.

mod machine;
mod stop_requests;
mod throughput;

use std::io::IsTerminal;

use nilo_answer::gpu::devices::ListedGpu;
use nilo_answer::gpu::requirements::common_models;
use nilo_answer::gpu::{GpuAnswer, MachineGpus};
use nilo_model::catalogue::{KnownModel, find_model};
use nilo_model::gpus::GpuKind;

use self::machine::MachineLook;
use crate::args::{GpuArgs, TextOrJson};
use crate::failure::{Failure, note};
use crate::gpu_kind::{common_gpus, named_gpu};
use crate::output_file::write_file;
use crate::recording::check_writable;
use crate::screen::Screen;
use crate::text::gpu::write_gpu_check;
use crate::text::json::{json_text, write_json};
use crate::wrap::WrappingWriter;

pub(crate) fn run(args: GpuArgs) -> Result<u8, Failure> {
    check_writable(args.output.as_deref(), "report")?;
    let models = named_models(&args)?;
    let (machine, kinds) = match &args.gpu {
        Some(name) => (elsewhere(name), vec![named_gpu(name)?]),
        None => look(&args)?,
    };
    let kinds = match kinds.is_empty() {
        true => common_gpus()?,
        false => kinds,
    };
    let answer = GpuAnswer::of(machine, &models, &kinds);
    if let Some(path) = &args.output {
        write_file(path, |out| {
            Ok(out.write_all(json_text(&answer)?.as_bytes())?)
        })?;
        note(&format!("wrote {}", path.display()));
    }
    let screen = Screen::stdout();
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => write_json(&mut out, &answer)?,
        TextOrJson::Text => {
            write_gpu_check(&mut WrappingWriter::new(out, screen), screen, &answer)?;
        }
    }
    Ok(0)
}

/// What the drivers tell of this machine, and the kind of the GPU that is meant.
fn look(args: &GpuArgs) -> Result<(MachineGpus, Vec<GpuKind>), Failure> {
    let look = match MachineLook::open(args.device)? {
        Ok(look) => look,
        Err(reason) => return Ok((nowhere(&reason), Vec::new())),
    };
    let (memory, notes) = look.memory();
    let device = look.listed_device();
    let free = memory.as_ref().ok().and_then(|memory| memory.free_bytes);
    let machine = MachineGpus {
        timestamp: local_time(),
        device: Some(device.index),
        gpu_info: Ok(look.listed()),
        throughput: throughput_of(args, &look, &device, free),
        memory,
        notes,
    };
    Ok((machine, device.kind().into_iter().collect()))
}

fn throughput_of(
    args: &GpuArgs,
    look: &MachineLook,
    device: &ListedGpu,
    free_bytes: Option<u64>,
) -> Result<nilo_answer::gpu::throughput::GpuThroughput, String> {
    if args.skip_throughput {
        return Err("--skip-throughput was given".to_owned());
    }
    if let Some(reason) = look.hidden() {
        return Err(reason);
    }
    if std::io::stderr().is_terminal() {
        note(&format!(
            "measuring the throughput of GPU {} ...",
            device.index
        ));
    }
    let nominal = device.nominal();
    throughput::measure(
        look.device(),
        look.place_of_maker(),
        free_bytes,
        nominal.as_ref(),
    )
}

/// No GPU in this machine.
fn nowhere(reason: &str) -> MachineGpus {
    MachineGpus {
        timestamp: local_time(),
        device: None,
        gpu_info: Err(reason.to_owned()),
        memory: Err(reason.to_owned()),
        throughput: Err(reason.to_owned()),
        notes: Vec::new(),
    }
}

/// A GPU that was asked about by its name.
fn elsewhere(name: &str) -> MachineGpus {
    nowhere(&format!(
        "as --gpu asks about {name} and not about this machine"
    ))
}

fn named_models(args: &GpuArgs) -> Result<Vec<KnownModel>, Failure> {
    if args.all_models {
        return Ok(Vec::new());
    }
    if args.models.is_empty() {
        return Ok(common_models());
    }
    let mut models: Vec<KnownModel> = Vec::new();
    for name in &args.models {
        let model = find_model(name).ok_or_else(|| {
            Failure::new(format!("no model {name:?} is in the catalogue"))
                .hint("`nilo fit --list` lists all names; `nilo fit` also takes a config.json or a checkpoint")
        })?;
        if !models.contains(&model) {
            models.push(model);
        }
    }
    Ok(models)
}

fn local_time() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S").to_string()
}
