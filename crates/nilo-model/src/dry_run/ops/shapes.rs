//! Parts of tensors and tensors put together.

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

impl DryRun {
    /// A part of a tensor in the same memory; backward makes a gradient of the whole, which is 0 elsewhere.
    pub(crate) fn slice(&self, x: &Tensor, count: u64) -> Tensor {
        let result = x.narrowed(count);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let whole = x.count;
        self.record(&[x], Vec::new(), result, move |session, grad, _| {
            vec![Some(session.new_tensor(whole, grad.dtype))]
        })
    }

    /// All of a tensor in parts, in the same memory; backward puts the gradients together.
    pub(crate) fn split(&self, x: &Tensor, counts: &[u64]) -> Vec<Tensor> {
        let parts: Vec<Tensor> = counts.iter().map(|count| x.narrowed(*count)).collect();
        if !self.is_recorded(&[x]) {
            return parts;
        }
        let whole = x.count;
        let dtype = x.dtype;
        self.record_several(&[x], Vec::new(), parts, move |session, _, _| {
            vec![Some(session.new_tensor(whole, dtype))]
        })
    }

    /// Tensors one behind the other; backward gives each its part of the gradient.
    pub(crate) fn cat(&self, parts: &[&Tensor]) -> Tensor {
        let count = parts.iter().map(|part| part.count).sum();
        let dtype = parts
            .iter()
            .map(|part| part.dtype)
            .reduce(|one, other| one.promoted(other));
        let result = self.new_tensor(count, dtype.expect("at least one part"));
        if !self.is_recorded(parts) {
            return result;
        }
        let counts: Vec<u64> = parts.iter().map(|part| part.count).collect();
        self.record(parts, Vec::new(), result, move |_, grad, _| {
            counts
                .iter()
                .map(|count| Some(grad.narrowed(*count)))
                .collect()
        })
    }

    /// Parts that are picked by their numbers, in memory of their own; backward makes a gradient of the whole.
    pub(crate) fn copied_part(&self, x: &Tensor, count: u64) -> Tensor {
        let result = self.new_tensor(count, x.dtype);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let whole = x.count;
        self.record(&[x], Vec::new(), result, move |session, grad, _| {
            vec![Some(session.new_tensor(whole, grad.dtype))]
        })
    }

    /// The tensor itself, seen in another shape in which its gradient will not come: backward copies that.
    pub(crate) fn with_copied_gradient(&self, x: Tensor) -> Tensor {
        if !self.is_recorded(&[&x]) {
            return x;
        }
        let view = x.detached();
        self.record(&[&x], Vec::new(), view, |session, grad, _| {
            vec![Some(session.new_tensor(grad.count, grad.dtype))]
        })
    }

    /// Each number so many times, without memory of its own; backward adds the copies up.
    pub(crate) fn expanded(&self, x: &Tensor, times: u64) -> Tensor {
        let mut view = x.detached();
        view.count = x.count * times;
        if !self.is_recorded(&[x]) {
            return view;
        }
        let count = x.count;
        self.record(&[x], Vec::new(), view, move |session, grad, _| {
            vec![Some(session.new_tensor(count, grad.dtype))]
        })
    }

    /// A tensor of which a part is overwritten, as in `whole[...].copy_(part)`.
    pub(crate) fn filled(&self, whole: &Tensor, part: &Tensor) -> Tensor {
        let result = whole.detached();
        if !self.is_recorded(&[whole, part]) {
            return result;
        }
        let whole_needs = whole.requires_grad();
        let (count, part_count) = (whole.count, part.count);
        self.record(
            &[whole, part],
            Vec::new(),
            result,
            move |session, grad, _| {
                let for_whole = session.new_tensor(count, grad.dtype);
                let for_part = session.new_tensor(part_count, grad.dtype);
                if whole_needs {
                    drop(session.new_like(&for_part));
                }
                vec![Some(for_whole), Some(for_part)]
            },
        )
    }

    /// Each number so many times, in memory of its own; backward adds the copies up.
    pub(crate) fn repeated(&self, x: &Tensor, times: u64) -> Tensor {
        if times == 1 {
            return x.clone();
        }
        let result = self.new_tensor(x.count * times, x.dtype);
        if !self.is_recorded(&[x]) {
            return result;
        }
        self.record(&[x], Vec::new(), result, |_, grad, _| {
            vec![Some(grad.clone())]
        })
    }

    /// Turns halves of rows against each other, as rotary position embeddings do.
    fn halves_turned(&self, x: &Tensor) -> Tensor {
        let first = self.slice(x, x.count / 2);
        let second = self.slice(x, x.count / 2);
        let negative = self.neg(&second);
        self.cat(&[&negative, &first])
    }

    /// Queries or keys with their positions.
    pub(crate) fn rotated(&self, x: &Tensor, cosine: &Tensor, sine: &Tensor) -> Tensor {
        let straight = self.mul(x, cosine);
        let turned = self.halves_turned(x);
        let across = self.mul(&turned, sine);
        drop(turned);
        self.add(&straight, &across)
    }

    /// The same where neighbours are turned against each other instead of halves.
    pub(crate) fn rotated_in_pairs(&self, x: &Tensor, cosine: &Tensor, sine: &Tensor) -> Tensor {
        let half = x.count / 2;
        let cosine = cosine.narrowed(cosine.count / 2);
        let sine = sine.narrowed(sine.count / 2);
        let (even, odd) = (self.slice(x, half), self.slice(x, half));
        let across = |a: &Tensor, b: &Tensor| {
            let (straight, turned) = (self.mul(a, &cosine), self.mul(b, &sine));
            self.add(&straight, &turned)
        };
        let (first, second) = (across(&even, &odd), across(&odd, &even));
        self.cat(&[&first, &second])
    }
}
