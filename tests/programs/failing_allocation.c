/* Stands before the C library of a real run (LD_PRELOAD) and lets an allocation of it fail.
 *
 *   UCP_FAILING_ALLOCATION=N        the N-th allocation, counted from 1
 *   UCP_FAILING_ALLOCATION=N+       all from the N-th on, as of a process that has come to its limit
 *   UCP_FAILING_ALLOCATION_OF=NAME  only allocations that a library of this name asks for are counted
 *   UCP_FAILING_ALLOCATION_LOG=FILE gets one line when it happens, "malloc 64"; or at the end, if it never does, how many
 *                                   allocations there were: "none 123"
 *
 * A process that lives on says for itself which one fails, by ucp_fail_allocation().
 *
 * A program with an `operator new` of its own allocates through malloc(); any other, such as Python, through the one of
 * the C++ library, which stands here, too. Nothing here allocates.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long allocations;
static atomic_int is_logged;
static long failing_allocation;
static int and_all_after;
static const char *of, *log_file;

static void write_line(const char* text, size_t number) {
  if (log_file == NULL) return;
  char line[64];
  const int length = snprintf(line, sizeof(line), "%s %zu\n", text, number);
  const int file = open(log_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return;
  if (write(file, line, (size_t)length) != length) abort();
  close(file);
}

__attribute__((constructor)) static void read_request(void) {
  of = getenv("UCP_FAILING_ALLOCATION_OF");
  const char* request = getenv("UCP_FAILING_ALLOCATION");
  if (request == NULL) return;
  log_file = getenv("UCP_FAILING_ALLOCATION_LOG");
  char* end = NULL;
  failing_allocation = strtol(request, &end, 10);
  and_all_after = *end == '+';
}

__attribute__((destructor)) static void write_count(void) {
  if (failing_allocation != 0 && allocations < failing_allocation) write_line("none", (size_t)allocations);
}

/* From now on the N-th fails; 0: none does any more. How many were counted since it was last called. */
long ucp_fail_allocation(long number);
long ucp_fail_allocation(long number) {
  failing_allocation = number;
  return atomic_exchange(&allocations, 0);
}

static int is_counted(void* caller) {
  if (of == NULL) return 1;
  struct dl_find_object object;
  return _dl_find_object(caller, &object) == 0 && strstr(object.dlfo_link_map->l_name, of) != NULL;
}

/* Whether this one fails. Those after the N-th wait for its line: another thread's failure may end the process. */
static int is_now(const char* function, size_t bytes, void* caller) {
  if (failing_allocation == 0 || !is_counted(caller)) return 0;
  const long number = atomic_fetch_add(&allocations, 1) + 1;
  if (number < failing_allocation || (number > failing_allocation && !and_all_after)) return 0;
  if (number == failing_allocation) {
    write_line(function, bytes);
    is_logged = 1;
  }
  while (!is_logged) sched_yield();
  errno = ENOMEM;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALLER __builtin_return_address(0)

#define DEFINE(result, name, parameters, arguments, bytes, failed)  \
  result name parameters {                                          \
    static __typeof__(&name) next;                                  \
    if (next == NULL) next = NEXT(name);                            \
    if (is_now(#name, bytes, CALLER)) return failed;                \
    return next arguments;                                          \
  }

DEFINE(void*, malloc, (size_t bytes), (bytes), bytes, NULL)
DEFINE(void*, calloc, (size_t count, size_t bytes), (count, bytes), count* bytes, NULL)
DEFINE(void*, realloc, (void* memory, size_t bytes), (memory, bytes), bytes, NULL)
DEFINE(void*, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes), bytes, NULL)
DEFINE(int, posix_memalign, (void** memory, size_t alignment, size_t bytes), (memory, alignment, bytes), bytes, ENOMEM)

/* `operator new` in all its forms that throw. That of the C++ library throws when it is asked for far too much. */
#define DEFINE_NEW(name, parameters, arguments, too_much)     \
  void* name parameters;                                      \
  void* name parameters {                                     \
    static __typeof__(&name) next;                            \
    if (next == NULL) next = NEXT(name);                      \
    if (is_now("new", bytes, CALLER)) return next too_much;   \
    return next arguments;                                    \
  }

DEFINE_NEW(_Znwm, (size_t bytes), (bytes), (PTRDIFF_MAX))
DEFINE_NEW(_Znam, (size_t bytes), (bytes), (PTRDIFF_MAX))
DEFINE_NEW(_ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment), (PTRDIFF_MAX, alignment))
DEFINE_NEW(_ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment), (PTRDIFF_MAX, alignment))
