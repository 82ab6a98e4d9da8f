//! What a GPU of NVIDIA's has sent and received over NVLink: the driver's counters of all its links together.

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper_sys::bindings::nvmlFieldValue_t;

use crate::gpu::NvlinkTraffic;

/// The scope of a question that means every link of the GPU.
const ALL_LINKS: u32 = u32::MAX;
/// The driver counts KiB.
const COUNTED_BYTES: u64 = 1024;

/// Asks for both counters in one call. The wrapper's own function can ask for the first link only.
pub(super) fn nvlink_traffic(device: &Device<'_>) -> Result<NvlinkTraffic, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    let mut values = [
        question(field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX),
        question(field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
    ];
    // SAFETY: the handle is the driver's own, and the array has as many values as are said.
    nvml_try(unsafe { ask(device.handle(), values.len() as i32, values.as_mut_ptr()) })?;
    let [sent, received] = values.map(counted_bytes);
    Ok(NvlinkTraffic {
        sent_bytes: sent?,
        received_bytes: received?,
    })
}

fn question(field: u32) -> nvmlFieldValue_t {
    // SAFETY: it has numbers only, all of which may be zero.
    let mut value: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
    value.fieldId = field;
    value.scopeId = ALL_LINKS;
    value
}

fn counted_bytes(value: nvmlFieldValue_t) -> Result<u64, NvmlError> {
    let counted = match FieldValueSample::try_from(value)?.value? {
        SampleValue::U64(count) => Some(count),
        SampleValue::U32(count) => Some(u64::from(count)),
        SampleValue::I64(count) => u64::try_from(count).ok(),
        SampleValue::F64(_) => None,
    };
    // All bits set is "not available".
    let bytes = counted.and_then(|count| count.checked_mul(COUNTED_BYTES));
    bytes.ok_or(NvmlError::NotSupported)
}
