#include "compiler/describe/request_texts.h"

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<SourceRequest> SourceTexts::Request() const {
  SourceRequest request{path, spec, config, {}, unused, drop_states, {}};
  request.repairs = repairs;
  UCP_ASSIGN_OR_RETURN(request.set, ParseSettings(set));
  UCP_ASSIGN_OR_RETURN(request.preference, ParseRankPreference(prefer_rank));
  return request;
}

}  // namespace ucp
