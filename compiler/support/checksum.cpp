#include "compiler/support/checksum.h"

#include <libdeflate.h>
#include <xxhash.h>
#include <zlib.h>

#include <memory>
#include <new>

namespace ucp {

std::uint32_t Crc32(std::span<const std::byte> bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

std::uint32_t Crc32(std::string_view bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

std::uint32_t ExtendCrc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

std::uint32_t Crc32OfZeros(std::uint64_t bytes) {
  // From the lengths 1, 2, 4, …: the ranges that `bytes` is the sum of, one behind the other.
  const std::byte zero{};
  std::uint32_t result = 0;
  std::uint32_t power = Crc32(std::span(&zero, 1));
  for (std::uint64_t length = 1; length != 0 && length <= bytes; length *= 2) {
    if ((bytes & length) != 0) result = CombineCrc32(result, power, length);
    power = CombineCrc32(power, power, length);
  }
  return result;
}

std::uint32_t CombineCrc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  // Of nothing, for one, it is 0; and what is moved by any number of bytes is 0 again.
  if (first == 0) return second;
  // The effect of a length is computed bit by bit, and most pieces are as long as the one before.
  thread_local std::uint64_t known_bytes = 0;
  thread_local uLong known_operation = crc32_combine_gen(0);
  if (second_bytes != known_bytes) {
    known_operation = crc32_combine_gen(static_cast<z_off_t>(second_bytes));
    known_bytes = second_bytes;
  }
  return static_cast<std::uint32_t>(crc32_combine_op(first, second, known_operation));
}

namespace {

std::string TextOf(XXH128_hash_t hash) {
  std::string text(32, '0');
  std::uint64_t number = hash.low64;
  for (std::size_t digit = text.size(); digit-- > 0; number >>= 4) {
    if (digit == 15) number = hash.high64;
    text[digit] = "0123456789abcdef"[number & 15];
  }
  return text;
}

}  // namespace

std::string ContentHash(std::string_view bytes) { return TextOf(XXH3_128bits(bytes.data(), bytes.size())); }

std::string ContentHash(std::string_view first, std::string_view second) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), first.data(), first.size());
  XXH3_128bits_update(state.get(), second.data(), second.size());
  return TextOf(XXH3_128bits_digest(state.get()));
}

std::uint64_t ContentHash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace ucp
