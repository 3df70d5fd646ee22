// The order of parameters that `round_robin_gradients` makes.
#pragma once

#include <cstdint>
#include <vector>

namespace ucp::deepspeed {

// The order that round_robin_gradients makes of another one, and the way back: item i goes to partition i mod
// `partitions`, and the partitions follow one another.
template <typename T>
std::vector<T> DealRoundRobin(const std::vector<T>& items, std::int64_t partitions) {
  std::vector<T> dealt;
  const auto step = static_cast<std::size_t>(partitions);
  for (std::size_t first = 0; first < step && first < items.size(); ++first) {
    for (std::size_t i = first; i < items.size(); i += step) dealt.push_back(items[i]);
  }
  return dealt;
}
template <typename T>
std::vector<T> UndealRoundRobin(const std::vector<T>& dealt, std::int64_t partitions) {
  std::vector<T> items(dealt.size());
  const auto step = static_cast<std::size_t>(partitions);
  std::size_t next = 0;
  for (std::size_t first = 0; first < step && first < items.size(); ++first) {
    for (std::size_t i = first; i < items.size(); i += step) items[i] = dealt[next++];
  }
  return items;
}

}  // namespace ucp::deepspeed
