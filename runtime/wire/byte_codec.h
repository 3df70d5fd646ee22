// How ranks, journals and parcels of one run write numbers and texts: a ByteReader takes the values that one ByteWriter
// added, in the same order.
//
// A message begins with a head of 8 bytes, "ucpwire" and the version of this codec, unless it is empty. Numbers are
// little-endian and 64 bits wide; a text is the number of its bytes and then these. The reader trusts nothing: it never
// reads behind the end, and never counts more things than the bytes that are left could hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ucp::wire {

inline constexpr std::string_view kMagic = "ucpwire";
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeadBytes = kMagic.size() + sizeof(kVersion);

class ByteWriter {
 public:
  void Add(std::uint64_t number);
  void Add(std::string_view text);

  // Empty if nothing was added.
  const std::string& bytes() const { return bytes_; }

 private:
  void Append(const void* data, std::size_t bytes);

  std::string bytes_;
};

// A value that does not fit is 0 or empty, and nothing is left; has_failed() from then on.
class ByteReader {
 public:
  // `bytes` must outlive this. Fails at once if they have another head.
  explicit ByteReader(std::string_view bytes);

  std::uint64_t Number();
  std::string Text();
  // Returns how many things follow, each of which takes 8 bytes at least; so it is never more than the bytes can hold.
  std::uint64_t Count();
  // Notes that something is not as it must be.
  void Fail();

  bool has_failed() const { return has_failed_; }
  // Returns the rest, which no call has taken.
  std::string_view left() const { return left_; }
  // Returns whether all was taken, and nothing failed.
  bool is_at_end() const { return !has_failed_ && left_.empty(); }

 private:
  std::string_view left_;
  bool has_failed_ = false;
};

}  // namespace ucp::wire
