#include "compiler/support/helping_threads.h"

#include <algorithm>

namespace ucp {
namespace {

thread_local unsigned allowed = 1;

}  // namespace

AllowedThreads::AllowedThreads(unsigned threads) : before_(allowed) { allowed = std::max(threads, 1U); }

AllowedThreads::~AllowedThreads() { allowed = before_; }

unsigned AllowedThreads::Here() { return allowed; }

}  // namespace ucp
