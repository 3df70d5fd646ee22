// What is freed stays with the process for some seconds. Planning is many structures one after the other, each gone
// when the next one stands: to give their memory back to the system at once, as mimalloc does after 25 ms, and to have
// it cleared and mapped again, took a seventh of the time of a conversion of 20,000 small tensors. A longer run gives
// back what planning took. Linked into programs alone, which have mimalloc; what its environment variables say counts.
#include <mimalloc.h>

namespace {

constexpr long kMilliseconds = 3000;
#if MI_MALLOC_VERSION < 210
constexpr mi_option_t kDelay = mi_option_decommit_delay;
#else
constexpr mi_option_t kDelay = mi_option_purge_delay;
#endif

[[maybe_unused]] const bool is_set = [] {
  mi_option_set_default(kDelay, kMilliseconds);
  return true;
}();

}  // namespace
