// The envelope around the FlatBuffer of a plan file, since a FlatBuffer does not know its own length and has no
// checksum:
//
//   [0, 8)    "UCPPLAN" and the version of the plan, one byte: 1; 2 if the plan has fused shards, which programs
//             that know version 1 alone would write wrongly; 3 if there are some that are parts of tensors of the
//             target's own, of which programs that know no more than version 2 would make wrong digests; 4 if
//             numbers get an offset, which programs that know no more than version 3 would leave out
//   [8, 16)   length of the FlatBuffer, u64 little-endian
//   [16, 24)  XXH3-64 of the FlatBuffer, u64 little-endian
//   [24, …)   the FlatBuffer; nothing behind it
#pragma once

#include <cstddef>
#include <string_view>

namespace ucp {

inline constexpr std::string_view kPlanMagic("UCPPLAN\1", 8);
inline constexpr std::string_view kFusedPlanMagic("UCPPLAN\2", 8);
inline constexpr std::string_view kPlanMagicOfParts("UCPPLAN\3", 8);
inline constexpr std::string_view kPlanMagicOfOffsets("UCPPLAN\4", 8);
inline constexpr std::string_view kPlanName = kPlanMagic.substr(0, 7);  // Of every version.
inline constexpr std::size_t kPlanEnvelopeBytes = 24;

}  // namespace ucp
