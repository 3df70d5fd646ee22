// Finds the parameters of each group of the optimizer, where one list names all of them and the files say only how long
// each group is. Both ways fail to decide rather than guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ucp::deepspeed {

// How many elements the parameters of a group have together, both ends included.
struct GroupRoom {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// The number of its group for each parameter. Nothing if no split fits, or more than one does.
using GroupSplit = std::optional<std::vector<std::size_t>>;

// Each group is a stretch of the list, in the list's order; a parameter without elements stays with the one before it.
GroupSplit SplitInOrder(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms);

// A group is any part of the list: parameters of one size are in one group, or nothing is decided. Gives up, undecided,
// after a million tries.
GroupSplit SplitBySizes(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms);

}  // namespace ucp::deepspeed
