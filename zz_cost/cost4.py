import os, time, tempfile
import torch, nilometer, sys, functools
torch.set_num_threads(1)
import nilometer.torch as nt
from nilometer.torch import watch, Watch
pc=time.perf_counter_ns
T={}
def wrap(cls,name):
    f=getattr(cls,name)
    def g(*a):
        b=pc(); r=f(*a); T.setdefault(cls.__name__+"."+name,[]).append(pc()-b); return r
    setattr(cls,name,g)
for n in ("_before_forward","_after_forward","_before_backward","_after_backward","_before_optimizer","_after_optimizer"): wrap(Watch,n)
if len(sys.argv)>1:
    wrap(nt._Clock,"store"); wrap(Watch,"_advance"); wrap(nilometer.ThroughputTracker,"update")
    o=nt.batch_size
    def bs(*a):
        b=pc(); r=o(*a); T.setdefault("batch_size",[]).append(pc()-b); return r
    nt.batch_size=bs
nilometer.init(dir=tempfile.mkdtemp(), memory=False)
model=torch.nn.Linear(4,1); x=torch.ones(2,4)
opt=torch.optim.SGD(model.parameters(), lr=1e-6)
def steps(n):
    for _ in range(n):
        model(x).sum().backward(); opt.step()
with watch(model,opt): steps(5000)
q=lambda v,s: sorted(v)[int(len(v)*s)]/1e3
for k,v in T.items(): print(f"{k:40s}",*(round(q(v,s),2) for s in (.02,.1,.25,.5)))
