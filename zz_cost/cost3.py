import os, time, tempfile
import torch, nilometer, sys, functools
torch.set_num_threads(1)
model=torch.nn.Linear(4,1); x=torch.ones(2,4)
opt=torch.optim.SGD(model.parameters(), lr=1e-6)
def steps(n):
    out=[]
    for _ in range(n):
        b=time.perf_counter()
        model(x).sum().backward(); opt.step()
        out.append(time.perf_counter()-b)
    return out
def nothing(*a): pass
E=torch.autograd.Variable._execution_engine
def cbq(*a): E.queue_callback(nothing)
def attach(m,a,k,o): o.grad_fn.register_prehook(nothing)
def attach2(m,a,k,o): o.grad_fn.register_prehook(cbq)
from nilometer.torch import watch
nilometer.init(dir=tempfile.mkdtemp(), memory=False)
def c0(): return []
def c1(): return [model.register_forward_pre_hook(nothing, with_kwargs=True)]
def c2(): return c1()+[model.register_forward_hook(nothing, with_kwargs=True, always_call=True)]
def c3(): return c1()+[model.register_forward_hook(attach, with_kwargs=True, always_call=True)]
def c4(): return c1()+[model.register_forward_hook(attach2, with_kwargs=True, always_call=True)]
def c5(): return c4()+[opt.register_step_pre_hook(nothing),opt.register_step_post_hook(nothing)]
def c6(): return [watch(model,opt)]
steps(500)
R={}
for _ in range(25):
    for c in (c0,c1,c2,c3,c4,c5,c6):
        h=c(); R.setdefault(c.__name__,[]).extend(steps(200)); [i.remove() for i in h]
q=lambda v,s: sorted(v)[int(len(v)*s)]*1e6
for k,v in R.items(): print(k,*(round(q(v,s)-q(R["c0"],s),1) for s in (.02,.1,.25,.5)))
print(q(R["c0"],.02))
