#!/bin/busybox sh
# The guest's first process: mounts what a Linux system has, opens cgroup v2, runs the scenarios, switches the machine off.
# tests/vm/run.sh puts this file into the initial RAM disk as /init; tests/vm/scenarios.sh lies beside it as /scenarios.sh.

export PATH=/bin HOME=/disk
/bin/busybox --install -s /bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory > /sys/fs/cgroup/cgroup.subtree_control

# A real file system on a disk: pages of a tmpfs are charged as shared memory and stay in the working set,
# so only files on a disk show that page cache is left out of it.
mount -t ext4 /dev/nvme0n1 /disk || echo "NILO-VM no disk: $(ls /dev)"

echo "NILO-VM booted in $(cut -d' ' -f1 /proc/uptime) s, kernel $(uname -r)"
while read -r scenario; do
    sh /scenarios.sh "$scenario" < /dev/null
done < /selection
echo "NILO-VM finished at $(cut -d' ' -f1 /proc/uptime) s"
umount /disk
poweroff -f
