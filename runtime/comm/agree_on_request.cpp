// Every rank has what all say, and so comes to the same sentence by itself.
#include "runtime/comm/agree_on_request.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace ucp {

llvm::Error AgreeOnRequest(Communicator& ranks, const std::string& request) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(request));
  const auto other = std::ranges::find_if(all, [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "rank 0 loads {}, and rank {} loads {}; all ranks load the same", all.front(),
              other - all.begin(), *other);
}

}  // namespace ucp
