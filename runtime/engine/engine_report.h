// The counts and findings of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/rank_preference.h"
#include "runtime/engine/state_digests.h"

namespace ucp {

// A tensor whose model weight is not the rounding of its master.
struct RoundingMismatch {
  std::string tensor;
  std::uint64_t elements = 0;  // Of all shards and copies.
  std::string first;           // The first one in words.
  // Of the shard or copy, or of the file of several that one is joined of, most of whose weights are not.
  struct Worst {
    std::uint64_t elements = 0;
    std::uint64_t of = 0;
    std::string first;
  } worst = {};
};

struct EngineReport {
  std::uint64_t bytes_copied = 0;       // Read from the source and written to the target.
  std::uint64_t bytes_compared = 0;     // Read from the source to be compared.
  std::uint64_t bytes_checksummed = 0;  // Read from the source for its checksums only.
  std::uint64_t bytes_exchanged = 0;    // Of the source, from one rank to another.
  double seconds = 0;
  unsigned threads = 0;
  std::uint64_t chunk_bytes = 0;                      // The bytes that a thread moves at a time.
  std::uint64_t buffer_bytes = 0;                     // The bytes of all threads' buffers.
  std::uint64_t peak_memory_bytes = 0;                // Of the process, as the operating system counted it.
  std::vector<RoundingMismatch> rounding_mismatches;  // By name.
  std::vector<RankDecision> decisions;                // The decisions of Plan::preference among the elements.
  std::vector<std::string> notes;                     // Sentences.
  std::vector<StateDigest> digests;                   // By tensor and state.
};

}  // namespace ucp
