/* Stands before the C library of a real run (LD_PRELOAD) and lets one of its system calls go wrong.
 *
 *   UCP_FAILING_CALL=N:WHAT   the N-th call that WHAT can happen to, counted from 1:
 *       an error's number     the call is not made and fails with it; close() closes all the same, as Linux does
 *       SHORT                 a read or write of more than one byte moves one byte only
 *       HANG                  the call is not made and never returns, as on a mount that does not answer
 *       an S and a number     the process gets this signal, and the call is made if it lives
 *       a C and a number      the same, but only calls that change files are counted
 *   UCP_FAILING_CALL_UNDER=FOLDER   only calls on what lies in this folder are counted
 *   UCP_FAILING_CALL_NAME=NAME      only calls of this function are counted
 *   UCP_FAILING_CALL_DIRECT=1       only calls on files that were opened past the page cache are counted
 *   UCP_FAILING_CALL_LOG=FILE   gets one line when it happens, "pwrite /x/y"; or at the end, if it never does, how many
 *                               calls there were: "none 123"
 *
 * The log is written with the C library's own functions, which do not come through here.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { CHANGES = 1, INTERRUPTIBLE = 2, MOVES = 4 }; /* What kind of call it is. */

static atomic_long calls;
static long failing_call;
static int error_number, signal_number, is_short, hangs, only_changes, only_direct;
static const char *under, *only_name;

__attribute__((constructor)) static void read_request(void) {
  const char* request = getenv("UCP_FAILING_CALL");
  if (request == NULL) return;
  under = getenv("UCP_FAILING_CALL_UNDER");
  only_name = getenv("UCP_FAILING_CALL_NAME");
  only_direct = getenv("UCP_FAILING_CALL_DIRECT") != NULL;
  char* what = NULL;
  failing_call = strtol(request, &what, 10);
  ++what;
  if (strcmp(what, "SHORT") == 0) {
    is_short = 1;
  } else if (strcmp(what, "HANG") == 0) {
    hangs = 1;
  } else if (*what == 'S' || *what == 'C') {
    only_changes = *what == 'C';
    signal_number = (int)strtol(what + 1, NULL, 10);
  } else {
    error_number = (int)strtol(what, NULL, 10);
  }
}

static void write_line(const char* log, const char* first, const char* second) {
  FILE* file = fopen(log, "w");
  if (file == NULL) return;
  fprintf(file, "%s %s\n", first, second);
  fclose(file);
}

static void path_of(int descriptor, char* path, size_t bytes) {
  char link[64] = "";
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, bytes - 1);
  path[length < 0 ? 0 : length] = '\0';
}

static void write_log(const char* call, const char* path, int descriptor) {
  const char* log = getenv("UCP_FAILING_CALL_LOG");
  if (log == NULL) return;
  char target[4096] = "";
  if (path == NULL) {
    path_of(descriptor, target, sizeof(target));
    path = target;
  }
  write_line(log, call, path);
}

/* A path that is not absolute is one in the folder `descriptor`, or where the process is. */
static int is_under(const char* path, int descriptor) {
  if (under == NULL) return 1;
  char target[4096] = "";
  if (path == NULL || *path != '/') {
    if (descriptor < 0) return path != NULL;
    path_of(descriptor, target, sizeof(target));
    path = target;
  }
  return strncmp(path, under, strlen(under)) == 0;
}

__attribute__((destructor)) static void write_count(void) {
  const char* log = getenv("UCP_FAILING_CALL_LOG");
  if (log == NULL || failing_call == 0 || calls >= failing_call) return;
  char count[32];
  snprintf(count, sizeof(count), "%ld", (long)calls);
  write_line(log, "none", count);
}

/* Whether this call is the one. */
static int is_now(int kind, const char* call, const char* path, int descriptor) {
  if (failing_call == 0) return 0;
  if (is_short && (kind & MOVES) == 0) return 0;
  if (error_number == EINTR && (kind & INTERRUPTIBLE) == 0) return 0;
  if (only_changes && (kind & CHANGES) == 0) return 0;
  if (only_name != NULL && strcmp(call, only_name) != 0) return 0;
  if (only_direct && (descriptor < 0 || (fcntl(descriptor, F_GETFL) & O_DIRECT) == 0)) return 0;
  if (!is_under(path, descriptor)) return 0;
  if (atomic_fetch_add(&calls, 1) + 1 != failing_call) return 0;
  write_log(call, path, descriptor);
  while (hangs) sleep(600);
  if (signal_number != 0) {
    kill(getpid(), signal_number);
    return 0;
  }
  errno = error_number;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define DEFINE(result, name, parameters, arguments, kind, path, descriptor, failed)         \
  result name parameters {                                                                  \
    static __typeof__(&name) next;                                                          \
    if (next == NULL) next = NEXT(name);                                                    \
    if (is_now(kind, #name, path, descriptor)) return failed;                               \
    return next arguments;                                                                  \
  }

#define DEFINE_MOVE(result, name, parameters, arguments, short_arguments, kind, bytes)      \
  result name parameters {                                                                  \
    static __typeof__(&name) next;                                                          \
    if (next == NULL) next = NEXT(name);                                                    \
    if ((!is_short || bytes > 1) && is_now(kind, #name, NULL, descriptor)) {                \
      if (is_short) return next short_arguments;                                            \
      return -1;                                                                            \
    }                                                                                       \
    return next arguments;                                                                  \
  }

DEFINE_MOVE(ssize_t, read, (int descriptor, void* to, size_t bytes), (descriptor, to, bytes), (descriptor, to, 1),
            INTERRUPTIBLE | MOVES, bytes)
DEFINE_MOVE(ssize_t, pread, (int descriptor, void* to, size_t bytes, off_t offset), (descriptor, to, bytes, offset),
            (descriptor, to, 1, offset), INTERRUPTIBLE | MOVES, bytes)
DEFINE_MOVE(ssize_t, write, (int descriptor, const void* from, size_t bytes), (descriptor, from, bytes),
            (descriptor, from, 1), INTERRUPTIBLE | MOVES | CHANGES, bytes)
DEFINE_MOVE(ssize_t, pwrite, (int descriptor, const void* from, size_t bytes, off_t offset),
            (descriptor, from, bytes, offset), (descriptor, from, 1, offset), INTERRUPTIBLE | MOVES | CHANGES, bytes)

/* The one byte of a short read is the first of the first place. */
ssize_t preadv(int descriptor, const struct iovec* places, int count, off_t offset) {
  if (is_now(INTERRUPTIBLE | MOVES, "preadv", NULL, descriptor)) {
    if (is_short) return NEXT(pread)(descriptor, places->iov_base, 1, offset);
    return -1;
  }
  return NEXT(preadv)(descriptor, places, count, offset);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  int kind = INTERRUPTIBLE | ((flags & O_CREAT) != 0 ? CHANGES : 0);
  if (is_now(kind, "open", path, -1)) return -1;
  return NEXT(open)(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (is_now(INTERRUPTIBLE, "openat", path, folder)) return -1;
  return NEXT(openat)(folder, path, flags, mode);
}

int close(int descriptor) {
  if (!is_now(INTERRUPTIBLE, "close", NULL, descriptor)) return NEXT(close)(descriptor);
  int error = errno;
  NEXT(close)(descriptor);
  errno = error;
  return -1;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  if (descriptor >= 0 && is_now(0, "mmap", NULL, descriptor)) return MAP_FAILED;
  return NEXT(mmap)(address, bytes, protection, flags, descriptor, offset);
}

DEFINE(int, fsync, (int descriptor), (descriptor), CHANGES | INTERRUPTIBLE, NULL, descriptor, -1)
DEFINE(int, syncfs, (int descriptor), (descriptor), CHANGES | INTERRUPTIBLE, NULL, descriptor, -1)
DEFINE(int, fstatfs, (int descriptor, struct statfs* status), (descriptor, status), INTERRUPTIBLE, NULL, descriptor, -1)
DEFINE(int, statfs, (const char* path, struct statfs* status), (path, status), INTERRUPTIBLE, path, -1, -1)
DEFINE(int, ftruncate, (int descriptor, off_t bytes), (descriptor, bytes), CHANGES | INTERRUPTIBLE, NULL, descriptor,
       -1)
DEFINE(int, fallocate, (int descriptor, int mode, off_t offset, off_t bytes), (descriptor, mode, offset, bytes),
       CHANGES | INTERRUPTIBLE, NULL, descriptor, -1)
DEFINE(int, flock, (int descriptor, int operation), (descriptor, operation), INTERRUPTIBLE, NULL, descriptor, -1)
DEFINE(int, mkdir, (const char* path, mode_t mode), (path, mode), CHANGES, path, -1, -1)
DEFINE(int, rename, (const char* from, const char* to), (from, to), CHANGES, from, -1, -1)
DEFINE(int, renameat2, (int from_folder, const char* from, int to_folder, const char* to, unsigned flags),
       (from_folder, from, to_folder, to, flags), CHANGES, from, -1, -1)
DEFINE(int, unlink, (const char* path), (path), CHANGES, path, -1, -1)
DEFINE(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags), CHANGES, path, folder, -1)
DEFINE(DIR*, opendir, (const char* path), (path), 0, path, -1, NULL)
DEFINE(DIR*, fdopendir, (int descriptor), (descriptor), 0, NULL, descriptor, NULL)
DEFINE(struct dirent*, readdir, (DIR * stream), (stream), 0, NULL, dirfd(stream), NULL)
DEFINE(int, stat, (const char* path, struct stat* status), (path, status), 0, path, -1, -1)
DEFINE(int, lstat, (const char* path, struct stat* status), (path, status), 0, path, -1, -1)
DEFINE(int, fstat, (int descriptor, struct stat* status), (descriptor, status), 0, NULL, descriptor, -1)
DEFINE(int, fstatat, (int folder, const char* path, struct stat* status, int flags), (folder, path, status, flags), 0,
       path, folder, -1)
DEFINE(int, statvfs, (const char* path, struct statvfs* status), (path, status), 0, path, -1, -1)
DEFINE(int, faccessat, (int folder, const char* path, int mode, int flags), (folder, path, mode, flags), 0, path, -1,
       -1)
