//! Ways to make a model fit in words, with the setting to make.

use nilo_model::estimate::{Way, WayCost};
use nilo_model::family::WeightPacking;

/// What to do.
pub fn way_in_words(way: Way) -> String {
    match way {
        Way::ExpandableSegments => "expandable segments in PyTorch's allocator".to_owned(),
        Way::FusedOptimizer => "fused optimizer".to_owned(),
        Way::ChunkedLoss(chunks) => format!("loss in {chunks} chunks"),
        Way::FusedAttention => "fused attention (SDPA)".to_owned(),
        Way::EightBitOptimizer => "8-bit AdamW".to_owned(),
        Way::Accumulate { batch, times } => {
            format!("batch {batch}, gradients of {times} accumulated")
        }
        Way::CheckpointHalf => "checkpoint every second block".to_owned(),
        Way::CheckpointAll => "checkpoint every block".to_owned(),
        Way::Autocast => "autocast to bf16".to_owned(),
        Way::Pure16Bits => "weights in bf16".to_owned(),
        Way::Lora => "LoRA of rank 16 on all linear layers, in bf16".to_owned(),
        Way::Qlora => "QLoRA: bf16 LoRA beside 4-bit weights".to_owned(),
        Way::Quantize(WeightPacking::EightBits) => "8-bit weights".to_owned(),
        Way::Quantize(_) => "4-bit weights".to_owned(),
        Way::Shard(ranks) => format!("shard over {ranks} GPUs (FSDP, ZeRO 3)"),
    }
}

/// How to do it in PyTorch or Hugging Face's libraries.
pub fn way_setting(way: Way) -> &'static str {
    match way {
        Way::ExpandableSegments => "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        Way::FusedOptimizer => "torch.optim.AdamW(..., fused=True)",
        Way::ChunkedLoss(_) => {
            "compute logits and loss for some tokens at a time under a checkpoint, or use a fused cross-entropy (Liger)"
        }
        Way::FusedAttention => "attn_implementation=\"sdpa\"",
        Way::EightBitOptimizer => "bitsandbytes.optim.AdamW8bit(...)",
        Way::Accumulate { .. } => {
            "gradient_accumulation_steps, or nilometer.optimize.AdaptiveBatches"
        }
        Way::CheckpointHalf => "nilometer.optimize.checkpoint_model(...) with a memory budget",
        Way::CheckpointAll => "model.gradient_checkpointing_enable()",
        Way::Autocast => "torch.autocast(\"cuda\", torch.bfloat16)",
        Way::Pure16Bits => "model.to(torch.bfloat16)",
        Way::Lora => {
            "peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=\"all-linear\"), autocast_adapter_dtype=False)"
        }
        Way::Qlora => {
            "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True) and peft.LoraConfig(r=16, target_modules=\"all-linear\"), autocast_adapter_dtype=False"
        }
        Way::Quantize(WeightPacking::EightBits) => "BitsAndBytesConfig(load_in_8bit=True)",
        Way::Quantize(_) => "BitsAndBytesConfig(load_in_4bit=True)",
        Way::Shard(_) => "torch.distributed.fsdp.fully_shard(...)",
    }
}

/// What else changes with it.
pub fn cost_in_words(cost: WayCost) -> &'static str {
    match cost {
        WayCost::SameResults => "same results",
        WayCost::LessPrecision => "less precision",
        WayCost::TrainsLess => "trains adapters only",
        WayCost::MoreGpus => "more GPUs",
    }
}
