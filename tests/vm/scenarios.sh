#!/bin/sh
# What must be true of `nilo` under a real cgroup v2, as a list of scenarios for busybox sh, run as root inside the VM.
# Called once for each scenario, with its name; prints one line: NILO-TEST <name> PASS|FAIL|SKIP <details>.
# The functions stand in the order in which they run; tests/vm/run.sh reads their names from here (scenario_*).
#
# The memory hog is `tail /dev/zero`: it looks for a last line that never ends and keeps everything until it is killed.
# The hog of a known size is `dd bs=SIZE`: its buffer is one block.

root=/sys/fs/cgroup
limit_bytes=67108864 # 64 MiB: far above the recorder, reached by the hog in a second

# ---- the machine itself: these need no nilo and tell a broken VM from a broken nilo ----

scenario_kernel_counts_an_oom_kill() {
    new_cgroup job; set_in job memory.max $limit_bytes
    in_cgroup job tail /dev/zero; code=$?
    expect "exit code" "$code" 137
    expect "oom_kill" "$(event job oom_kill)" 1
}

scenario_kernel_kills_a_whole_group() {
    new_cgroup job; set_in job memory.max $limit_bytes; set_in job memory.oom.group 1
    in_cgroup job sleep 100 & bystander=$!
    in_cgroup job tail /dev/zero
    wait $bystander; code=$?
    expect "bystander's exit code" "$code" 137
    expect "oom_group_kill" "$(event job oom_group_kill)" 1
}

scenario_kernel_keeps_written_pages_inactive() {
    new_cgroup job
    in_cgroup job dd if=/dev/zero of=/disk/big bs=1M count=160 2>/dev/null
    cached=$(cat $root/job/memory.stat | sed -n 's/^inactive_file //p'); rm /disk/big
    expect_above "inactive_file" "$cached" 150000000
}

# ---- nilo ----

scenario_limit_is_found_on_an_ancestor() {
    new_cgroup job; set_in job memory.max $limit_bytes
    echo +memory > $root/job/cgroup.subtree_control
    new_cgroup job/step; echo +memory > $root/job/step/cgroup.subtree_control
    new_cgroup job/step/task
    record job/step/task sleep 1; code=$?
    expect "exit code" "$code" 0
    expect "status" "$(text status)" exited
    expect "limit_bytes" "$(number limit_bytes)" $limit_bytes
    expect_match "limit_source" "$(text limit_source)" "*/job*"
    expect_no_match "limit_source" "$(text limit_source)" "*/job/step*"
}

scenario_command_is_oom_killed() {
    new_cgroup job; set_in job memory.max $limit_bytes
    record job tail /dev/zero; code=$?
    expect "oom_kill" "$(event job oom_kill)" 1
    expect "exit code" "$code" 137
    expect "status" "$(text status)" oom-killed
    expect "limit_bytes" "$(number limit_bytes)" $limit_bytes
}

# memory.oom.group kills the recorder with the job: the verdict is made from the files, by another process, afterwards.
scenario_recorder_dies_with_the_job() {
    new_cgroup job; set_in job memory.max $limit_bytes; set_in job memory.oom.group 1
    record job tail /dev/zero; code=$?
    expect "the recorder's exit code" "$code" 137
    expect "oom_group_kill" "$(event job oom_group_kill)" 1
    rmdir_when_empty $root/job # the counters are gone too: only the files can tell
    show
    case "$(text status)" in
        oom-killed) ;;
        lost) has_oom_finding || wrong "lost, without a finding about an OOM kill" ;;
        *) wrong "status is '$(text status)', not oom-killed or lost" ;;
    esac
}

scenario_child_is_oom_killed_and_parent_exits_well() {
    new_cgroup job; set_in job memory.max $limit_bytes
    record job sh -c 'tail /dev/zero; exit 0'; code=$?
    expect "oom_kill" "$(event job oom_kill)" 1
    expect "exit code" "$code" 0
    expect "status" "$(text status)" oom-killed
}

scenario_throttling_is_not_an_oom_kill() {
    new_cgroup job; set_in job memory.high 41943040 # 40 MiB
    record job dd if=/dev/zero of=/dev/null bs=44M count=2; code=$?
    expect_above "memory.events high" "$(event job high)" 0
    expect "exit code" "$code" 0
    expect "status" "$(text status)" exited
    expect_no_match "findings" "$(cat show.json)" '*[Oo][Oo][Mm]-[Kk]ill*'
}

scenario_page_cache_is_not_in_the_peak() {
    new_cgroup job
    record job dd if=/dev/zero of=/disk/big bs=1M count=160; code=$?
    expect_above "the cgroup's own memory.peak" "$(cat $root/job/memory.peak)" 150000000
    expect "exit code" "$code" 0
    expect_above "peak_bytes" "$(number peak_bytes)" 500000
    expect_below "peak_bytes" "$(number peak_bytes)" 48000000
    rm /disk/big
}

# At the limit the kernel takes page cache back and counts `max` events; nobody dies.
scenario_reclaim_at_the_limit_is_not_an_oom_kill() {
    new_cgroup job; set_in job memory.max $limit_bytes
    record job dd if=/dev/zero of=/disk/big bs=1M count=160; code=$?
    expect_above "memory.events max" "$(event job max)" 0
    expect "exit code" "$code" 0
    expect "status" "$(text status)" exited
    rm /disk/big
}

scenario_pressure_is_exported() {
    [ -e /proc/pressure/memory ] || { skipped="the kernel has no PSI"; return; }
    new_cgroup job
    record job sleep 1
    nilo export "$run" --format json > export.json 2> export.log || wrong "nilo export failed: $(cat export.log)"
    grep -E -i -q 'psi|pressure' export.json || wrong "the export has no pressure: $(short "$(cat export.json)")"
}

# The wall clock is set while the job runs: time goes on evenly, and the jump is told. Last, because the clock stays wrong.
scenario_a_clock_jump_is_no_passing_of_time() {
    new_cgroup job
    record job sh -c 'sleep 1; date -s "2035-01-01 00:00:00" > /dev/null; sleep 2'; code=$?
    expect "exit code" "$code" 0
    seconds=$(number duration_secs)
    expect_below "duration_secs" "${seconds%%.*}" 30
    nilo export "$run" --format json > export.json 2> export.log || wrong "nilo export failed: $(cat export.log)"
    grep -q '"clock-jump"' export.json || wrong "the jump is not in the record"
}

# ---- making ----

new_cgroup() { mkdir "$root/$1"; made="$root/$1 $made"; }
set_in() { echo "$3" > "$root/$1/$2"; }
event() { sed -n "s/^$2 //p" "$root/$1/memory.events"; }

# Runs a command inside a cgroup and returns its status; the shell that moves itself is replaced by the command.
in_cgroup() { cgroup=$1; shift; sh -c "echo 0 > $root/$cgroup/cgroup.procs; exec \"\$@\"" sh "$@"; }

# Records a command inside a cgroup, recorder included, then reads the summary from outside of it.
record() {
    cgroup=$1; shift
    in_cgroup "$cgroup" nilo run --quiet -- "$@" > run.out 2> run.log; recorded=$?
    run=$(cd .nilo 2>/dev/null && echo */run.json); run=${run%%/*}
    [ "${run:-*}" != "*" ] || wrong "no run folder: $(tail -n 3 run.log)"
    show
    return $recorded
}
show() { nilo show "$run" --format json > show.json 2> show.log || wrong "nilo show failed: $(tail -n 3 show.log)"; }

# The first value of a key in show.json, whether it is printed on one line or on many.
text() { tr -d '\n' < show.json | grep -o "\"$1\" *: *\"[^\"]*\"" | head -n 1 | sed 's/.*: *"//; s/"$//'; }
number() { tr -d '\n' < show.json | grep -o "\"$1\" *: *[0-9.]*" | head -n 1 | sed 's/.*: *//'; }

has_oom_finding() { tr -d '\n' < show.json | grep -E -i -q '"findings" *: *\[.*oom.*(likely|certain)|"findings" *: *\[.*(likely|certain).*oom'; }

# ---- judging: every wrong thing is collected, so that one boot shows them all ----

wrong() { faults="$faults; $*"; }
expect() { [ "$2" = "$3" ] || wrong "$1 is '$2', not '$3'"; }
expect_above() { [ "${2:-0}" -gt "$3" ] || wrong "$1 is '$2', not above $3"; }
expect_below() { [ -n "$2" ] && [ "$2" -lt "$3" ] || wrong "$1 is '$2', not below $3"; }
# shellcheck disable=SC2254 # the third argument is a pattern
expect_match() { case "$2" in $3) ;; *) wrong "$1 does not match $3: '$(short "$2")'" ;; esac; }
# shellcheck disable=SC2254
expect_no_match() { case "$2" in $3) wrong "$1 matches $3: '$(short "$2")'" ;; esac; }
short() { echo "$1" | tr -d '\n' | cut -c 1-300; }

# A killed process leaves its cgroup a moment after its parent has seen it die.
rmdir_when_empty() { for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$1" 2>/dev/null && return; sleep 0.2; done; wrong "$1 stays busy"; }

scenario=$1 faults="" skipped="" made=""
mkdir -p "/disk/$scenario" && cd "/disk/$scenario" || exit
started=$(cut -d' ' -f1 /proc/uptime)
"scenario_$scenario"
for cgroup in $made; do [ ! -d "$cgroup" ] || rmdir_when_empty "$cgroup"; done
took=$(cut -d' ' -f1 /proc/uptime | awk "{print \$1 - $started}")
if [ -n "$faults" ]; then
    echo "NILO-TEST $scenario FAIL ${faults#; }"
    for log in run.log show.log show.json; do
        [ ! -s $log ] || head -c 3000 $log | sed "s/^/NILO-LOG $scenario $log: /"
    done
    echo
elif [ -n "$skipped" ]; then
    echo "NILO-TEST $scenario SKIP $skipped"
else
    echo "NILO-TEST $scenario PASS $took s"
fi
