#!/usr/bin/env bash
# Cuts the power under a store on a real file system, again and again, and checks the store each time.
#
# Usage: Tests/run ext4cut
# Needs root, to mount. An ext4 file system lies in a file. While a workload writes to a store on it, an ioctl shuts the
# file system down without flushing its journal. As after a loss of power, all that was not synchronised is lost. Then
# the file system is mounted again and the store is checked.
#
#   ANNALS_WORKLOAD   a command; called with: create STORE ACKFILE SEED   makes the store, then ends
#                                             run STORE ACKFILE SEED      commits until it is killed
#                     After each durable success it appends "acked N" to ACKFILE, which lies on another file system
#                     (create: N = 0; run: the number of the transaction) in one write.
#   ANNALS_CHECK      a command; called with: STORE ACKFILE   ends with 0 if every acknowledged transaction is there and
#                     everything else is in order. After a cut during creation there may be no store, if none is
#                     acknowledged.
#   Without both, the package's own are built: for every third seed crash-helper (Tests/CrashHelper), which uses the log
#   alone, else process-helper (Tests/ProcessHelper/PowerCut.swift), which commits, cleans, compacts and makes backups
#   through a Store. Of the latter's files every byte is checked besides.
#   ANNALS_CUTS              how many cuts (200), ANNALS_CREATION_CUTS of which hit the creation (20)
#   ANNALS_CREATION_MILLISECONDS   how late at most these come (12)
#   ANNALS_SEED              where the random numbers start (the time); a failed cut prints what repeats it
#   ANNALS_MKFS, ANNALS_MOUNT      more options for mkfs.ext4 (-b 1024) and mount (data=writeback)
#
# Ends with 0, with 1 when a check failed (images and logs are kept), with 77 when the machine cannot do this.
set -euo pipefail

skip() {
    printf '*** SKIPPED: power cuts on ext4: %s\n' "$*" >&2
    exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root, to mount"
for program in python3 mkfs.ext4 mount umount; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || skip "needs $program"
done
PATH=$PATH:/usr/sbin:/sbin
if [ -z "${ANNALS_WORKLOAD:-}" ] || [ -z "${ANNALS_CHECK:-}" ]; then
    cd "$(dirname "$0")/../.."
    . Tests/Scripts/support/build.sh
    build annals crash-helper process-helper
    programs=$(realpath "$programs")
fi

# Which program a seed's cut hits.
choose() {
    if [ -z "${programs:-}" ]; then
        workload=$ANNALS_WORKLOAD check=$ANNALS_CHECK
    elif (($1 % 3 == 0)); then
        workload=$programs/crash-helper check="$programs/crash-helper check"
    else
        workload="$programs/process-helper cut" check=check_store
    fi
}

# Every byte of the store and of the copies beside it, then what should be in them.
check_store() {
    local file
    for file in "$1" "$1".backup?; do
        if [ -e "$file" ]; then "$programs/annals" verify "$file" || return 1; fi
    done
    "$programs/process-helper" cut check "$1" "$2"
}

cuts=${ANNALS_CUTS:-200}
creation_cuts=${ANNALS_CREATION_CUTS:-20}
creation_milliseconds=${ANNALS_CREATION_MILLISECONDS:-12}
first_seed=${ANNALS_SEED:-$(date +%s)}

work=$(mktemp -d "${TMPDIR:-/tmp}/annals-ext4cut.XXXXXX")
mounted=$work/mounted
mkdir "$mounted"
failures=0

unmount() {
    local attempt
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        umount "$mounted" 2>/dev/null && return 0
        sleep 0.1
    done
    umount -l "$mounted"
}

finish() {
    if mountpoint -q "$mounted"; then unmount; fi
    if [ "$failures" = 0 ]; then rm -rf "$work"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

mount_image() { mount -o "loop${ANNALS_MOUNT:+,$ANNALS_MOUNT}" "$1" "$mounted"; }

# Starts a command (none: only cuts), cuts after so many microseconds, kills the command. One process does all of it, so
# that the moment of the cut is not lost in starting programs. Fails when the command has failed before the cut.
#
# A synchronisation that is under way in the very moment of the cut may return success although the kernel has just
# thrown its journal away (seen once in 200 cuts), which no real loss of power does: nobody is left to be told.
# So only what was acknowledged before the cut binds the store. But nothing may be acknowledged once calls that were
# under way have ended: that would be a workload that takes a failure for success.
cutter='
import fcntl, os, struct, subprocess, sys, time
SHUTDOWN, WITHOUT_LOG_FLUSH, GRACE_SECONDS = 0x8004587d, 2, 0.05
mounted, microseconds, acks, command = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
directory = os.open(mounted, os.O_RDONLY)
start = time.monotonic()
process = subprocess.Popen(command, stdin=subprocess.DEVNULL) if command else None
time.sleep(max(0, start + microseconds / 1e6 - time.monotonic()))
ended = process.poll() if process else None
before = os.stat(acks).st_size
fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
if process:
    time.sleep(GRACE_SECONDS)
    under_way = os.stat(acks).st_size
    time.sleep(GRACE_SECONDS)
    after = os.stat(acks).st_size
    process.kill()
    process.wait()
    with open(acks, "rb+") as file:
        file.seek(before)
        late = file.read().decode().split("\n")[:-1]
        file.truncate(before)
    if late:
        print("acknowledged during the cut, not counted:", ", ".join(late[:8]))
    if after > under_way:
        sys.exit("the workload still acknowledges, %d ms after the cut" % (GRACE_SECONDS * 1000))
if ended:
    sys.exit("the workload ended with %d before the cut" % ended)
'
cut() { python3 -c "$cutter" "$mounted" "$@"; }

truncate -s 64M "$work/empty.img"
# shellcheck disable=SC2086  # the options are words
mkfs.ext4 -q -F ${ANNALS_MKFS:-} "$work/empty.img"
mount_image "$work/empty.img" 2>"$work/mount-error" || skip "cannot mount a file: $(cat "$work/mount-error")"
unmount

# The cut must lose what was not synchronised, and only that; else everything below would prove nothing.
cp --sparse=always "$work/empty.img" "$work/probe.img"
mount_image "$work/probe.img"
python3 -c '
import os, sys
for name, durable in (("synchronised", True), ("not-synchronised", False)):
    file = os.open(sys.argv[1] + "/" + name, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(file, b"x" * 5000)
    if durable:
        os.fsync(file)
' "$mounted"
cut 0 "$work/mount-error" || skip "this kernel cannot shut an ext4 file system down"
unmount
mount_image "$work/probe.img"
kept=$(stat -c %s "$mounted/synchronised" 2>/dev/null || echo none)
lost=$(stat -c %s "$mounted/not-synchronised" 2>/dev/null || echo none)
unmount
rm "$work/probe.img"
if [ "$kept" != 5000 ] || [ "$lost" = 5000 ]; then
    skip "the cut does not work as it should here (synchronised: $kept, not synchronised: $lost of 5000 bytes)"
fi

acknowledged=0
during=0
backups=0
cleanings=0
for ((index = 0; index < cuts; index++)); do
    seed=$((first_seed + index))
    RANDOM=$((seed & 0x7fff))
    choose "$seed"
    image=$work/$seed.img
    acks=$work/$seed.acks
    log=$work/$seed.log
    store=$mounted/store.annals
    : >"$acks"
    cp --sparse=always "$work/empty.img" "$image"
    mount_image "$image"
    problem=
    # Spread over the run, so that a run with fewer cuts has some of both.
    if ((index * creation_cuts / cuts != (index + 1) * creation_cuts / cuts)); then
        phase=create
        microseconds=$(((RANDOM * 32768 + RANDOM) % (creation_milliseconds * 1000 + 1)))
    else
        phase=run
        microseconds=$((5000 + (RANDOM * 32768 + RANDOM) % 295001))
        # shellcheck disable=SC2086  # the commands may have several words
        $workload create "$store" "$acks" "$seed" >>"$log" 2>&1 || problem="the store could not be made"
    fi
    if [ -z "$problem" ]; then
        # shellcheck disable=SC2086
        cut "$microseconds" "$acks" $workload "$phase" "$store" "$acks" "$seed" >>"$log" 2>&1 ||
            problem="the workload failed"
    fi
    unmount
    mount_image "$image"
    if [ -z "$problem" ]; then
        # shellcheck disable=SC2086
        $check "$store" "$acks" >>"$log" 2>&1 || problem="the check failed"
    fi
    unmount
    acknowledged=$((acknowledged + $(grep -c '^acked' "$acks" || true)))
    backups=$((backups + $(grep -c '^backup' "$acks" || true)))
    cleanings=$((cleanings + $(grep -c '^cleaned' "$acks" || true)))
    if grep -q '^acknowledged during the cut' "$log"; then during=$((during + 1)); fi
    if [ -n "$problem" ]; then
        failures=$((failures + 1))
        echo "FAILED: $problem (seed $seed, $phase, cut after $microseconds us); kept: $image $acks $log" >&2
        creations=$([ $phase = run ] && echo 0 || echo 1)
        echo "Again: ANNALS_SEED=$seed ANNALS_CUTS=1 ANNALS_CREATION_CUTS=$creations Tests/run ext4cut" >&2
        tail -n 5 "$log" >&2
    else
        rm "$image" "$acks" "$log"
    fi
done

echo "$cuts power cuts ($creation_cuts during creation, seed $first_seed): $failures failed; $acknowledged commits,"
echo "$cleanings cleanings and $backups backups acknowledged, in $during cuts one more while the power went"
[ "$failures" = 0 ]
