//! The bytes of a pickle and how far they are read. A claimed length is compared with what is there before anything is done with it.

use super::error::PickleError;

pub(crate) struct PickleInput<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> PickleInput<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    fn truncated(&self) -> PickleError {
        PickleError::Truncated {
            offset: self.bytes.len(),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, PickleError> {
        let byte = *self
            .bytes
            .get(self.position)
            .ok_or_else(|| self.truncated())?;
        self.position += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let array = *rest.first_chunk::<N>().ok_or_else(|| self.truncated())?;
        self.position += N;
        Ok(array)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, PickleError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next `length` bytes, `length` as the file claims it.
    #[inline]
    pub(crate) fn slice(&mut self, length: u64) -> Result<&'a [u8], PickleError> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        if length > rest.len() as u64 {
            return Err(self.truncated());
        }
        let length = length as usize;
        self.position += length;
        Ok(&rest[..length])
    }
}
