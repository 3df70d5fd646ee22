// Bandwidths as people write them, in bits or in bytes.
#pragma once

#include <optional>
#include <string_view>

namespace ucp {

// "400Gb/s", "400Gbit/s", "400Gbps" in bits, "50GB/s", "46.6GiB/s" in bytes: bytes in a second. Nothing if it is none
// of these or zero.
std::optional<double> ParseRate(std::string_view text);

}  // namespace ucp
