// Checksums of byte ranges: CRC-32 as zip archives use it, and XXH3 to tell contents apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ucp {

std::uint32_t Crc32(std::span<const std::byte> bytes);
std::uint32_t Crc32(std::string_view bytes);

// Returns the CRC-32 of a range and of these bytes behind it.
std::uint32_t ExtendCrc32(std::uint32_t crc, std::span<const std::byte> bytes);

// Returns the CRC-32 of this many zero bytes, without looking at them.
std::uint32_t Crc32OfZeros(std::uint64_t bytes);

// Returns the CRC-32 of two ranges one behind the other, from theirs and the length of the second.
std::uint32_t CombineCrc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

// XXH3, 128 bits, as 32 hexadecimal digits: the identity of a spec, a header or a plan.
std::string ContentHash(std::string_view bytes);
std::string ContentHash(std::string_view first, std::string_view second);  // Of both, one behind the other.
std::uint64_t ContentHash64(std::string_view bytes);

}  // namespace ucp
