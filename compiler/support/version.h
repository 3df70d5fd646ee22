// The version of this project, as the programs and the files they write state it.
#pragma once

namespace ucp {

inline constexpr const char* kVersion = UCP_VERSION;

}  // namespace ucp
