// All the work of a plan as a list of chunks, ordered by where they lie in the target's files. A chunk is a part of one
// target range that fits a thread's buffer. Only the ranges are stored; chunks are counted, and computed when asked
// for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/steps.h"

namespace ucp {

class WorkList {
 public:
  // No chunk is larger than `chunk_bytes` in either of its dtypes, which must hold at least one element of any dtype.
  // The plan must outlive this.
  WorkList(const Plan& plan, std::uint64_t chunk_bytes);

  std::uint64_t chunks() const { return chunks_; }
  TargetRange chunk(std::uint64_t number) const;

  // How many chunks each file has, by FileId.
  std::vector<std::uint32_t> ChunksOfFiles() const;

  // Memory that a list for this plan takes.
  static std::uint64_t Bytes(const Plan& plan);

 private:
  // A TargetRange in less space: there can be millions.
  struct Range {
    std::uint32_t write = 0;
    std::uint32_t state = 0;
    RecordId record;
    DType dtype = DType::kFloat32;
    DType source_dtype = DType::kFloat32;
    std::int64_t record_element = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint64_t first_chunk = 0;
  };

  std::uint64_t FileOffset(const Range& range) const;
  std::int64_t ChunkElements(const Range& range) const;
  std::uint32_t StateNumber(const std::string& state);

  const Plan& plan_;
  const std::uint64_t chunk_bytes_;
  std::uint64_t chunks_ = 0;
  std::vector<std::string> states_;
  std::vector<Range> ranges_;
};

}  // namespace ucp
