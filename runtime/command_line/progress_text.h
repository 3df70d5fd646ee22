// How far a run is, in as many words as there is room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ucp {

struct ProgressNumbers {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;  // More than 0.
  std::uint64_t files_done = 0;
  std::uint64_t files_total = 0;   // 0: the text does not count files.
  double seconds = 0;              // In which
  std::uint64_t bytes_before = 0;  // what is more than these was done: an earlier run may have begun.
};

// " 42 %  1.2 GB of 2.9 GB, 0.81 GB/s, 2 s left, 12 of 40 files": the parts that fit into `columns`, the percentage
// always.
std::string ProgressText(const ProgressNumbers& numbers, std::size_t columns);

}  // namespace ucp
