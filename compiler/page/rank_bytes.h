// How many bytes of each tensor every rank of a checkpoint holds, as its files say: tensors that its coordinate holds,
// and of what ZeRO partitions, its part.
#pragma once

#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layout/storage.h"
#include "compiler/page/page.h"

namespace ucp {

struct RankBytes {
  // Ranks that differ in data parallelism alone are one where nothing is partitioned: "pp=0 tp=1", "pp=0 tp=1 part=3".
  std::vector<std::string> ranks;
  std::size_t more_ranks = 0;  // That are left out.
  std::map<std::string, std::vector<std::uint64_t>> of_tensor;
};

enum class CountedStates {
  kAll,
  kPartitioned,  // Those whose elements several data-parallel ranks share out.
};

// The first 32 ranks, in the order of their coordinates.
RankBytes BytesOfRanks(const Storage& storage, CountedStates counted);

// The same as map.js reads it: rows that are alike are stored once.
class RankRows {
 public:
  explicit RankRows(RankBytes bytes) : bytes_(std::move(bytes)) {}

  // The number of the tensor's row; null if no rank holds any of it.
  llvm::json::Value NumberOf(const std::string& tensor);
  // Writes the attributes `ranks`, `moreRanks` and `held`; call after NumberOf.
  void Write(llvm::json::OStream& json) const;

 private:
  RankBytes bytes_;
  Numbering rows_;
};

}  // namespace ucp
