#!/usr/bin/env bash
# Runs the suite on a simulated machine with pages of 64 KiB, as some with arm64 have.
#
# Usage: Tests/run pages [FILTER]
# FILTER is one of the test runner. SCRATCH names the build folder (.build), CONFIGURATION debug (by default) or
# release, SECONDS_EACH how long the run may take (3600). Exit status 1 if a test fails. A library before the C library
# plays the kernel of such a machine for all calls of the tests, the tools and helpers:
# - `sysconf`, `getpagesize` and `getauxval` return 64 KiB as the page size;
# - mappings begin at multiples of it, and lengths are rounded up to it: `madvise` clears, and `munmap` takes away, all
#   of the last page;
# - an address or an offset of a file that is no multiple of it is refused with EINVAL, except by `mprotect`, which only
#   the runtime of Swift calls.
# Not simulated: between the last page of 4 KiB of a file and the end of its page of 64 KiB there are zeros on such a
# machine, and here reading ends the process; the C library's own mappings; the file system's blocks.
# A debug build checks alignment besides: `load` and atomics stop at an address that is not aligned.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CONFIGURATION=${CONFIGURATION:-debug}
. Tests/Scripts/support/build.sh
cat >"$folder/pages.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { page = 65536 };
static const uintptr_t rest = page - 1;
static uintptr_t up(uintptr_t bytes) { return (bytes + rest) & ~rest; }

static void *refused(void) {
    errno = EINVAL;
    return MAP_FAILED;
}

long sysconf(int name) {
    static long (*next)(int);
    if (name == _SC_PAGESIZE) return page;
    if (!next) next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return next(name);
}

int getpagesize(void) { return page; }

unsigned long getauxval(unsigned long type) {
    static unsigned long (*next)(unsigned long);
    if (type == AT_PAGESZ) return page;
    if (!next) next = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return next(type);
}

void *mmap(void *address, size_t count, int protection, int flags, int file, off_t offset) {
    if (count == 0 || offset & rest) return refused();
    count = up(count);
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
        if ((uintptr_t)address & rest) return refused();
        return (void *)syscall(SYS_mmap, address, count, protection, flags, file, offset);
    }
    uintptr_t start = syscall(
        SYS_mmap, 0, count + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((void *)start == MAP_FAILED) return MAP_FAILED;
    uintptr_t place = up(start);
    void *mapped = (void *)syscall(SYS_mmap, place, count, protection, flags | MAP_FIXED, file, offset);
    int error = errno;
    if (mapped == MAP_FAILED) {
        syscall(SYS_munmap, start, count + page);
        errno = error;
        return MAP_FAILED;
    }
    if (place > start) syscall(SYS_munmap, start, place - start);
    if (start + page > place) syscall(SYS_munmap, place + count, start + page - place);
    return mapped;
}

void *mmap64(void *address, size_t count, int protection, int flags, int file, off64_t offset) {
    return mmap(address, count, protection, flags, file, offset);
}

// What is called with the address of a mapping.
#define CALL(name, arguments, number, ...) \
    int name arguments { \
        if ((uintptr_t)address & rest) { \
            errno = EINVAL; \
            return -1; \
        } \
        return syscall(number, __VA_ARGS__); \
    }
CALL(munmap, (void *address, size_t count), SYS_munmap, address, up(count))
CALL(madvise, (void *address, size_t count, int advice), SYS_madvise, address, up(count), advice)
CALL(msync, (void *address, size_t count, int flags), SYS_msync, address, up(count), flags)

// The process that only checks the library asks for a page, and for what such a kernel refuses.
__attribute__((constructor)) static void check(void) {
    char *two = mmap(0, page + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    two[2 * page - 1] = 1;
    if (madvise(two + 4096, 4096, MADV_DONTNEED) == 0 || madvise(two, page + 1, MADV_DONTNEED) != 0
        || two[2 * page - 1] != 0 || munmap(two, page + 1) != 0 || sysconf(_SC_PAGESIZE) != page)
        _exit(99);
}
C
clang -O1 -shared -fPIC -o "$folder/pages.so" "$folder/pages.c"
build_tests
if ! LD_PRELOAD=$folder/pages.so python3 -c 'import os; exit(os.sysconf("SC_PAGESIZE") != 65536)'; then
    echo "Pages of 64 KiB cannot be simulated here." >&2
    exit 1
fi
# Left out: ContextLeakTests, which count the C library's memory: its buffers have other sizes there.
options=(--testing-library swift-testing --skip ContextLeakTests)
if [ $# -gt 0 ]; then options+=(--filter "$1"); fi
LD_PRELOAD=$folder/pages.so timeout -k 5 "${SECONDS_EACH:-3600}" \
    "$tests" "${options[@]}" >"$folder/log" 2>&1 || {
    grep -E '^✘|Fatal error' "$folder/log" >&2
    exit 1
}
tail -1 "$folder/log"
