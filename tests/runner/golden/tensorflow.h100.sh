#!/usr/bin/env bash
# The processes of every node, each with its TF_CONFIG.
set -euo pipefail

# The node's InfiniBand ports (DEVICE:PORT) and the partition key of each, which is the larger
# of its first two. Accelerated networking has a device there too, with link layer Ethernet.
# FAIRWAY_SYSTEM_ROOT may name a folder that holds another sys/ to read.
find_infiniband() as in openmpi.h100.sh

# Tells NCCL, UCX and MPI which ports to take and which partition the node is in.
use_infiniband() as in openmpi.h100.sh

# NCCL goes on without a word where it cannot read the topology file: this says so. Without the file
# it takes GPUs and adapters for far from each other, and goes through the host's memory.
require_topology() as in openmpi.h100.sh

# What every rank runs with: the settings for Standard_ND96isr_H100_v5, and the job's own over them.
environment() as in openmpi.h100.sh

# One process of a node.
process() {
    # Near its GPU: the NUMA node of each local rank's. Where a cpuset forbids that, it stays.
    local numa=(0 0 0 0 1 1 1 1)
    local cpus=/sys/devices/system/node/node${numa[LOCAL_RANK]}/cpulist
    { taskset -cp "$(<"$cpus")" $$; } &>/dev/null || true
    if [[ ${RANK_PIPES-} ]]; then
        exec >"$RANK_PIPES/$LOCAL_RANK" 2>&1
        printf '\0%s %s\n' "$RANK_PIPES" "$((FAIRWAY_NODE_RANK * FAIRWAY_PROCESSES_PER_NODE + LOCAL_RANK))"
        unset RANK_PIPES
    fi
    exec bash -c 'python train.py'
}

# Sets `roles` and `indices` by process, and `cluster` to JSON with their addresses: a port for
# each process of a host, from FAIRWAY_MAIN_PORT on.
lay_out_cluster() {
    local hosts host rank role port
    local -A ports=() addresses=() count=()
    roles=() indices=()
    IFS=, read -ra hosts <<<"$FAIRWAY_HOSTS"
    for ((rank = 0; rank < FAIRWAY_WORLD_SIZE; rank++)); do
        role="worker"
        host=${hosts[rank / FAIRWAY_PROCESSES_PER_NODE]}
        port=$((FAIRWAY_MAIN_PORT + ${ports[$host]:-0}))
        ports[$host]=$((${ports[$host]:-0} + 1))
        addresses[$role]+="${addresses[$role]:+, }\"$host:$port\""
        roles+=("$role")
        indices+=("${count[$role]:-0}")
        count[$role]=$((${count[$role]:-0} + 1))
    done
    cluster=""
    for role in chief ps worker; do
        [[ -z ${addresses[$role]-} ]] || cluster+="${cluster:+, }\"$role\": [${addresses[$role]}]"
    done
}

node() {
    environment
    local roles indices cluster rank started=() status=0
    lay_out_cluster
    # shellcheck disable=SC2089,SC2090  # the quotes in TF_CONFIG are JSON's
    for ((LOCAL_RANK = 0; LOCAL_RANK < FAIRWAY_PROCESSES_PER_NODE; LOCAL_RANK++)); do
        rank=$((FAIRWAY_NODE_RANK * FAIRWAY_PROCESSES_PER_NODE + LOCAL_RANK))
        printf -v TF_CONFIG '{"cluster": { %s }, "task": {"type": "%s", "index": %d}}' \
            "$cluster" "${roles[rank]}" "${indices[rank]}"
        export LOCAL_RANK TF_CONFIG
        bash -euo pipefail -c "$(declare -f process); process" &
        started+=($!)
    done
    for _ in "${started[@]}"; do
        wait -n || status=$?
        ((status == 0)) || break
    done
    # 127 may only say that a process ended before it was waited for; its own status is kept.
    if ((status == 127)); then
        status=0
        for process in "${started[@]}"; do wait "$process" || status=$?; done
    fi
    kill "${started[@]}" 2>/dev/null || true
    wait
    return "$status"
}

# The ranks of a node, with their rank before each line: torchrun's own labels know a rank within its
# node alone, and stand in the middle of lines that come in parts.
label_ranks() {
    command -v python3 >/dev/null ||
        exec bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment process lay_out_cluster node); node"
    exec python3 -IS -c '
# Runs a command, and writes what its ranks print with the rank before each line. A rank opens its
# pipe and says there which one it is, behind a NUL and the name of the folder, which no program
# prints. What stands over itself, as a progress bar does, is written as it comes; all else in whole
# lines, so that no two ranks share one.
import errno, os, re, select, shutil, signal, subprocess, sys, tempfile

LONGEST = 1 << 16  # of a line that does not end
count, command = int(sys.argv[2]), sys.argv[3:]
pipes = {}  # descriptor: [rank, what was read and not yet written]
folder = None
try:
    folder = tempfile.mkdtemp(prefix="fairway-ranks-")
    for number in range(count):
        path = os.path.join(folder, str(number))
        os.mkfifo(path, 0o600)
        # Also for writing, so that it never ends nor makes a rank wait for its reader.
        pipes[os.open(path, os.O_RDWR | os.O_NONBLOCK)] = [str(number), b""]
except OSError:  # a file system without pipes, or none that can be written to
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the ranks
    os.execvp(command[0], command)
mark = re.compile(b"\0" + re.escape(os.fsencode(folder)) + b" ([0-9]{1,9})\n")
unended = None  # whose line is the last that was written, where that line has no end yet

def write(data):
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:  # ssh sets that on a pipe which it shares
            select.select([], [1], [])
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return  # the disk is full: the job goes on without these lines

def show(descriptor, text):
    global unended
    if not text:
        return
    rank, out = pipes[descriptor][0], b""
    if unended not in (None, descriptor):
        out, unended = b"\n", None
    for line in re.findall(b"[^\n]*\n|[^\n]+", text):
        if unended is None:
            out += b"[%s]<stdout>: " % rank.encode()
        out += line
        unended = None if line.endswith(b"\n") else descriptor
    write(out)

def take(descriptor, data, ended=False):
    global unended
    text = pipes[descriptor][1] + data
    while True:
        begun = mark.search(text)
        if not begun:
            break
        show(descriptor, text[: begun.start()])
        if unended == descriptor:
            write(b"\n")
            unended = None
        pipes[descriptor][0], text = begun.group(1).decode(), text[begun.end() :]
    # A carriage return at the end may be half of a line break.
    end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
    if ended or len(text) - end > LONGEST:
        end = len(text)
    show(descriptor, text[:end])
    pipes[descriptor][1] = text[end:]

def read(descriptor):
    try:
        data = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return False
    take(descriptor, data)
    return bool(data)

woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
signal.signal(signal.SIGCHLD, lambda *_: None)
child = subprocess.Popen(command, env=dict(os.environ, RANK_PIPES=folder))
for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, _: child.send_signal(number))
while child.poll() is None:
    for descriptor in select.select([woken, *pipes], [], [])[0]:
        if descriptor == woken:
            os.read(woken, 64)
        else:
            read(descriptor)
for descriptor in pipes:
    # As much as a pipe can hold: what was left behind may print on without end.
    for _ in range(16):
        if not read(descriptor):
            break
    take(descriptor, b"", ended=True)
if unended is not None:
    write(b"\n")
shutil.rmtree(folder, ignore_errors=True)
sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)
' fairway-waits "$FAIRWAY_PROCESSES_PER_NODE" \
        bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment process lay_out_cluster node); node"
}

# FAIRWAY_EACH_NODE is a command prefix of several words.
# shellcheck disable=SC2086
exec $FAIRWAY_EACH_NODE \
    bash -euo pipefail -c "$(declare -f find_infiniband use_infiniband require_topology environment process lay_out_cluster node label_ranks); label_ranks"
