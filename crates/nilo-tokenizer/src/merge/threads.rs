//! Work in parts on several threads; the last part runs on the calling one.

/// Runs each part and returns what they made, in order.
pub(super) fn in_parts<T: Send, R: Send>(mut parts: Vec<T>, run: impl Fn(T) -> R + Sync) -> Vec<R> {
    let Some(last) = parts.pop() else {
        return Vec::new();
    };
    if parts.is_empty() {
        return vec![run(last)];
    }
    std::thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(move || run(part)))
            .collect();
        let last = run(last);
        let mut results: Vec<R> = others
            .into_iter()
            .map(|other| {
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        results.push(last);
        results
    })
}
