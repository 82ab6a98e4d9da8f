//! An unhandled exception in a line.

use nilo_sample::UnhandledException;

use crate::text::one_line::one_line;

const MESSAGE_CHARS: usize = 200;
const FILE_CHARS: usize = 120;
const TYPE_CHARS: usize = 60;

/// `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ... (train.py:12 in step, raised at functional.py:2551)`
pub(crate) fn exception_in_words(exception: &UnhandledException) -> String {
    let kind = one_line(&exception.type_name, TYPE_CHARS);
    let message = one_line(&exception.short_message(), MESSAGE_CHARS);
    let mut text = match message.is_empty() {
        true => kind,
        false => format!("{kind}: {message}"),
    };
    if let Some(place) = exception.place() {
        let file = one_line(&place.file, FILE_CHARS);
        text += &format!(" ({file}:{}", place.line);
        let raised_at = exception.raised_at.as_ref();
        if let Some(raised_at) = raised_at.filter(|raised_at| *raised_at != place) {
            let file = one_line(&raised_at.file, FILE_CHARS);
            text += &format!(", raised at {file}:{}", raised_at.line);
        }
        text += ")";
    }
    text
}

/// `OutOfMemoryError`: the type without its module, for a table.
pub(crate) fn short_type(exception: &UnhandledException) -> String {
    let name = exception.type_name.rsplit('.').next().unwrap_or_default();
    one_line(name, TYPE_CHARS)
}
