#include "runtime/storage/open_file_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// Standard input and output, the lock, the journal, and the folders on the way to one that is removed.
constexpr std::uint64_t kOtherFiles = 16;

}  // namespace

llvm::Expected<OpenFileShares> DivideOpenFiles(std::uint64_t limit, unsigned threads) {
  const std::uint64_t needed = kOtherFiles + std::uint64_t{3} * threads;
  if (limit < needed) {
    return Fail(
        ErrorCode::kUsage,
        "this process may have {} files open at once (`ulimit -n`), and a conversion with {} {} needs {}; raise "
        "the limit or lower {}",
        limit, threads, threads == 1 ? "thread" : "threads", needed, OptionName(UserOption::kThreads));
  }
  OpenFileShares shares;
  const std::uint64_t third = (limit - kOtherFiles) / 3;
  shares.writing = std::min<std::uint64_t>(shares.writing, third);
  shares.reading = std::min<std::uint64_t>(shares.reading, 2 * third);
  return shares;
}

std::uint64_t OpenFileLimit() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint32_t>::max();
  }
  return limit.rlim_cur;
}

}  // namespace ucp
