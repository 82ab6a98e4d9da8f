//! Numbers stored in fewer bytes where every one of them comes back bit by bit.

use crate::element::ElementKind;

/// The smallest kind that holds all numbers in `bytes`, which are of `kind`; `None` where none is smaller.
pub(crate) fn narrowest(kind: ElementKind, bytes: &[u8]) -> Option<ElementKind> {
    let values = bytes.chunks_exact(kind.size());
    let smallest = match kind {
        ElementKind::F32 | ElementKind::F64 => {
            let mut is_single = kind == ElementKind::F64;
            let mut range = Some((0, 0));
            for value in values {
                let value = float(kind, value);
                is_single &= (f64::from(value as f32)).to_bits() == value.to_bits();
                let whole = value as i64;
                let is_whole = (whole as f64).to_bits() == value.to_bits();
                range = range
                    .filter(|_| is_whole)
                    .map(|range| widened(range, whole));
                if range.is_none() && !is_single {
                    return None;
                }
            }
            range
                .and_then(|range| whole_kind(range, kind.size()))
                .or(is_single.then_some(ElementKind::F32))
        }
        ElementKind::U64 if values.clone().any(|value| value[7] > 127) => None,
        ElementKind::U16
        | ElementKind::I16
        | ElementKind::U32
        | ElementKind::I32
        | ElementKind::U64
        | ElementKind::I64 => whole_kind(
            values.fold((0, 0), |range, value| widened(range, whole(kind, value))),
            kind.size(),
        ),
        ElementKind::Bool | ElementKind::U8 | ElementKind::I8 | ElementKind::F16 => None,
    };
    smallest.filter(|smallest| smallest.size() < kind.size())
}

fn widened((least, most): (i64, i64), value: i64) -> (i64, i64) {
    (least.min(value), most.max(value))
}

fn whole_kind((least, most): (i64, i64), size: usize) -> Option<ElementKind> {
    let kinds = [
        (ElementKind::U8, 0, i64::from(u8::MAX)),
        (ElementKind::I8, i64::from(i8::MIN), i64::from(i8::MAX)),
        (ElementKind::U16, 0, i64::from(u16::MAX)),
        (ElementKind::I16, i64::from(i16::MIN), i64::from(i16::MAX)),
        (ElementKind::U32, 0, i64::from(u32::MAX)),
        (ElementKind::I32, i64::from(i32::MIN), i64::from(i32::MAX)),
    ];
    kinds
        .into_iter()
        .find(|&(kind, lowest, highest)| kind.size() < size && lowest <= least && most <= highest)
        .map(|(kind, ..)| kind)
}

/// The numbers of `bytes` as `to`, which [`narrowest`] chose.
pub(crate) fn narrow(kind: ElementKind, to: ElementKind, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / kind.size() * to.size());
    for value in bytes.chunks_exact(kind.size()) {
        match (kind, to) {
            (ElementKind::F64, ElementKind::F32) => {
                out.extend_from_slice(&(float(kind, value) as f32).to_le_bytes());
            }
            (ElementKind::F32 | ElementKind::F64, _) => {
                out.extend_from_slice(&(float(kind, value) as i64).to_le_bytes()[..to.size()]);
            }
            _ => out.extend_from_slice(&whole(kind, value).to_le_bytes()[..to.size()]),
        }
    }
    out
}

/// The numbers of `bytes`, which are of `from`, as `kind` into `out`.
pub(crate) fn widen(from: ElementKind, kind: ElementKind, bytes: &[u8], out: &mut [u8]) {
    for (value, out) in bytes
        .chunks_exact(from.size())
        .zip(out.chunks_exact_mut(kind.size()))
    {
        match (from, kind) {
            (ElementKind::F32, ElementKind::F64) => {
                out.copy_from_slice(&float(from, value).to_le_bytes())
            }
            (_, ElementKind::F32) => {
                out.copy_from_slice(&(whole(from, value) as f32).to_le_bytes())
            }
            (_, ElementKind::F64) => {
                out.copy_from_slice(&(whole(from, value) as f64).to_le_bytes())
            }
            _ => out.copy_from_slice(&whole(from, value).to_le_bytes()[..kind.size()]),
        }
    }
}

fn float(kind: ElementKind, value: &[u8]) -> f64 {
    match kind {
        ElementKind::F32 => f64::from(f32::from_le_bytes(value.try_into().expect("four bytes"))),
        _ => f64::from_le_bytes(value.try_into().expect("eight bytes")),
    }
}

fn whole(kind: ElementKind, value: &[u8]) -> i64 {
    let is_signed = matches!(
        kind,
        ElementKind::I8 | ElementKind::I16 | ElementKind::I32 | ElementKind::I64
    );
    let is_negative = is_signed && value.last().is_some_and(|&byte| byte > 127);
    let mut bytes = [if is_negative { 255 } else { 0 }; 8];
    bytes[..value.len()].copy_from_slice(value);
    i64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn singles(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn clipped_rewards_take_a_byte() {
        assert_eq!(
            narrowest(ElementKind::F32, &singles(&[-1.0, 0.0, 1.0])),
            Some(ElementKind::I8)
        );
    }

    #[test]
    fn what_would_lose_a_bit_stays() {
        for value in [0.5, -0.0, f32::NAN, f32::INFINITY] {
            assert_eq!(
                narrowest(ElementKind::F32, &singles(&[1.0, value])),
                None,
                "{value}"
            );
        }
    }

    proptest! {
        #[test]
        fn narrowed_numbers_come_back(
            kind in prop::sample::select(vec![ElementKind::U16, ElementKind::I16, ElementKind::U32, ElementKind::I32,
                ElementKind::U64, ElementKind::I64, ElementKind::F32, ElementKind::F64]),
            small in prop::collection::vec(-300_i64..70_000, 1..40),
            odd in prop::collection::vec(any::<u8>(), 0..3),
            is_halved: bool,
        ) {
            let mut bytes: Vec<u8> = Vec::new();
            for value in small {
                let real = if is_halved { value as f64 / 2.0 } else { value as f64 };
                match kind {
                    ElementKind::F32 => bytes.extend((real as f32).to_le_bytes()),
                    ElementKind::F64 => bytes.extend(real.to_le_bytes()),
                    _ => bytes.extend(&value.to_le_bytes()[..kind.size()]),
                }
            }
            for byte in odd {
                bytes.extend(vec![byte; kind.size()]);
            }
            if let Some(to) = narrowest(kind, &bytes) {
                let small = narrow(kind, to, &bytes);
                prop_assert!(small.len() < bytes.len());
                let mut back = vec![1; bytes.len()];
                widen(to, kind, &small, &mut back);
                prop_assert_eq!(back, bytes);
            }
        }
    }
}
