// Numbers as people read and write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ucp {

// "512 B", "3.4 MB", "1.2 TB": decimal units, two significant digits or more.
std::string HumanBytes(std::uint64_t bytes);

// "12,288"
std::string WithThousands(std::uint64_t number);

// "1.25 GB/s"; "8.40 MB/s" below a hundredth of that
std::string HumanRate(double bytes_per_second);

// "1 element", "12,288 elements"
std::string Counted(std::uint64_t number, std::string_view noun);

// "64MiB", "1GiB", "1.5GB", "500mb", "4096": nothing if it is none of these or zero.
std::optional<std::uint64_t> ParseByteCount(std::string_view text);

}  // namespace ucp
