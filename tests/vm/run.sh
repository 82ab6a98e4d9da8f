#!/usr/bin/env bash
# Runs tests/vm/scenarios.sh under a real cgroup v2 with a real OOM killer, in a virtual machine that needs no rights:
# QEMU in pure emulation, Debian's cloud kernel, busybox and the binary under test.
#
#   tests/vm/run.sh target/release/nilo      every scenario
#   tests/vm/run.sh --plumbing               only those about the machine itself; no binary needed
#
# Installs missing Debian packages when run as root; the kernel package is unpacked, never installed.
# NILO_VM_ACCEL=kvm uses hardware virtualization where it works; NILO_VM_TIMEOUT sets the limit in seconds (180);
# NILO_VM_KEEP=1 keeps the guest's console output.
# With CI=true a skipped scenario is a failure.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
cache=$repository/.tools/vm
work=$(mktemp -d "${TMPDIR:-/tmp}/nilo-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT

main() {
    local binary=${1:-}
    case "$binary" in
        --plumbing) binary= ;;
        "" | -*) fail "say which binary to test" "tests/vm/run.sh target/release/nilo" ;;
        *) [ -x "$binary" ] || fail "not an executable file: $binary" "cargo build --release" ;;
    esac
    install_packages
    fetch_kernel
    mapfile -t scenarios < <(list_scenarios "$binary")
    build_disk
    build_initrd "$binary" "${scenarios[@]}"
    boot
    judge "${scenarios[@]}"
}

fail() { echo "error: $1" >&2; [ $# -lt 2 ] || echo "hint: $2" >&2; exit 2; }
say() { echo "vm: $*" >&2; }

# The functions of scenarios.sh named scenario_*; without a binary only those about the kernel.
list_scenarios() {
    local pattern='s/^scenario_\([a-z_0-9]*\)().*/\1/p'
    [ -n "$1" ] || pattern='s/^scenario_\(kernel_[a-z_0-9]*\)().*/\1/p'
    sed -n "$pattern" "$here/scenarios.sh"
}

install_packages() {
    local missing=()
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || missing+=(busybox-static)
    command -v cpio >/dev/null || missing+=(cpio)
    [ -x /sbin/mkfs.ext4 ] || missing+=(e2fsprogs)
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || fail "missing Debian packages: ${missing[*]}" "sudo apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    update_package_lists
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1 ||
        { cat "$work/apt.log" >&2; fail "apt-get could not install ${missing[*]}"; }
}

package_lists_updated=no
update_package_lists() {
    [ $package_lists_updated = no ] || return 0
    apt-get -qq -o DPkg::Lock::Timeout=300 update
    package_lists_updated=yes
}

# linux-image-cloud-amd64 is an empty package that depends on the kernel's newest version: that one is fetched.
# A kernel that is already in the cache is used as it is, so that a second run needs no network.
fetch_kernel() {
    kernel=$cache/vmlinuz
    [ ! -s "$kernel" ] || return 0
    mkdir -p "$cache" "$work/kernel"
    local package
    package=$(newest_kernel_package)
    # A fresh machine has no lists; an old one has lists that name packages the mirror no longer keeps.
    if [ -z "$package" ] || ! download "$package"; then
        [ "$(id -u)" = 0 ] || fail "the package lists do not lead to a kernel" "sudo apt-get update"
        update_package_lists
        package=$(newest_kernel_package)
        [ -n "$package" ] || fail "no linux-image-cloud-amd64 in the package lists" "the VM needs a Debian mirror"
        download "$package" || fail "could not download $package"
    fi
    dpkg-deb -x "$work"/kernel/*.deb "$work/kernel/root"
    cp "$work"/kernel/root/boot/vmlinuz-* "$kernel.partial" && mv "$kernel.partial" "$kernel"
    say "kernel: $package"
}
newest_kernel_package() {
    { apt-cache depends linux-image-cloud-amd64 2>/dev/null || true; } | sed -n 's/^ *Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}
download() { (cd "$work/kernel" && apt-get -qq -o APT::Sandbox::User=root download "$1" >/dev/null 2>&1); }

# A sparse file: the guest's run folders and the big files of the page-cache scenarios.
build_disk() {
    truncate -s 768M "$work/disk"
    /sbin/mkfs.ext4 -q -F -O ^has_journal "$work/disk"
}

build_initrd() {
    local binary=$1 root=$work/root
    shift
    mkdir -p "$root"/{bin,proc,sys/fs/cgroup,dev,disk,tmp,etc}
    cp /bin/busybox "$root/bin/busybox"
    cp "$here/init.sh" "$root/init"
    cp "$here/scenarios.sh" "$root/scenarios.sh"
    chmod 755 "$root/init"
    echo "root:x:0:0:root:/disk:/bin/sh" > "$root/etc/passwd"
    printf '%s\n' "$@" > "$root/selection"
    if [ -n "$binary" ]; then
        cp "$binary" "$root/bin/nilo"
        strip "$root/bin/nilo" 2>/dev/null || true
        copy_libraries "$binary" "$root"
    fi
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd.gz"
}

# The loader and the shared libraries, at the paths under which the binary asks for them; a static binary has none.
copy_libraries() {
    local library
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
        mkdir -p "$2$(dirname "$library")"
        cp -L "$library" "$2$library"
    done
}

boot() {
    local started=$SECONDS limit=${NILO_VM_TIMEOUT:-180}
    console=$work/console.log
    [ -z "${NILO_VM_KEEP:-}" ] || console=$cache/console.log
    timeout --kill-after=5 "$limit" qemu-system-x86_64 \
        -M "q35,accel=${NILO_VM_ACCEL:-tcg},usb=off" -cpu max -smp 1 -m 512 \
        -nodefaults -no-user-config -display none -no-reboot -serial stdio -monitor none -net none \
        -drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device nvme,drive=disk,serial=nilo \
        -kernel "$kernel" -initrd "$work/initrd.gz" \
        -append "console=ttyS0 quiet loglevel=1 panic=-1 psi=1 nokaslr mitigations=off tsc=reliable random.trust_cpu=on rdinit=/init" \
        < /dev/null 2> "$work/qemu.log" | tr -d '\r' > "$console" || {
        cat "$work/qemu.log" >&2
        say "the machine did not end by itself within $limit s; the end of its console:"
        tail -n 20 "$console" >&2
    }
    say "$(sed -n 's/.*NILO-VM \(booted.*\)/\1/p' "$console" | grep . || echo 'did not boot'), $((SECONDS - started)) s in all"
}

# Every scenario must have printed its line: one that the machine never came to is a failure, too.
judge() {
    local passed=0 failed=0 skipped=0 scenario line
    for scenario in "$@"; do
        line=$(grep -o "NILO-TEST $scenario [A-Z]*.*" "$console" | head -n 1 | cut -d' ' -f3-) || true
        case "$line" in
            PASS*) passed=$((passed + 1)) ;;
            SKIP*) if [ "${CI:-}" = true ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi ;;
            FAIL*) failed=$((failed + 1)) ;;
            *) failed=$((failed + 1)) line="FAIL it did not report" ;;
        esac
        echo "$scenario: $line"
        [ "${line%% *}" = PASS ] || grep -o "NILO-LOG $scenario .*" "$console" | cut -d' ' -f3- | sed 's/^/    /' || true
    done
    echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
    [ $failed = 0 ]
}

main "$@"
