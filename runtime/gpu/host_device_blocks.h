// Pieces of memory that the stand-in for GPUs knows, by their addresses as they are given out.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace ucp {

class HostDeviceBlocks {
 public:
  void Add(std::uintptr_t begin, std::uint64_t bytes) { blocks_[begin] = bytes; }
  // Returns whether there was one.
  bool Remove(std::uintptr_t begin) { return blocks_.erase(begin) > 0; }

  // Whether all of these bytes are in one piece.
  bool Hold(std::uintptr_t begin, std::uint64_t bytes) const {
    const auto after = blocks_.upper_bound(begin);
    if (after == blocks_.begin()) return false;
    const auto& [first, size] = *std::prev(after);
    return begin + bytes <= first + size;
  }

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [begin, bytes] : blocks_) sum += bytes;
    return sum;
  }

 private:
  std::map<std::uintptr_t, std::uint64_t> blocks_;
};

}  // namespace ucp
