// Entries of a plan that stand at a place of a file, found by their file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "compiler/layout/storage.h"

namespace ucp {

// Returns the indices of `entries`, by file and offset.
template <typename Entry>
std::vector<std::uint32_t> ByPlace(const std::vector<Entry>& entries) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(entries[a].file, entries[a].offset) < std::tuple(entries[b].file, entries[b].offset);
  });
  return order;
}

// Returns the part of such an order that belongs to one file.
template <typename Entry>
std::span<const std::uint32_t> OfFile(const std::vector<Entry>& entries, const std::vector<std::uint32_t>& order,
                                      FileId file) {
  auto first = std::lower_bound(order.begin(), order.end(), file,
                                [&](std::uint32_t index, FileId wanted) { return entries[index].file < wanted; });
  auto last = std::upper_bound(first, order.end(), file,
                               [&](FileId wanted, std::uint32_t index) { return wanted < entries[index].file; });
  return {first, last};
}

}  // namespace ucp
