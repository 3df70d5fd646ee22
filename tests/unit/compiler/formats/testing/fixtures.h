// Checkpoints that the real engine wrote, and what it held in memory when it did (tests/fixtures).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/formats/format.h"

namespace ucp::testing {

std::vector<std::string> FixtureNames();
std::string FixtureRoot(const std::string& name);  // Its `checkpoint` folder, with `latest` in it.

// The engine's own account, gathered from its partitions and never from its files.
struct TrueState {
  std::string dtype;
  std::string sha256;  // Of the elements, row-major.
};
struct TrueTensor {
  std::string kind;  // "parameter", "frozen", "buffer"
  std::vector<std::int64_t> shape;
  std::map<std::string, TrueState> states;
};
struct Truth {
  std::int64_t pp = 1, tp = 1, partitions = 1;
  double step = 0;
  std::string step_type;  // "int", "float32", "none"
  std::map<std::string, TrueTensor> tensors;
  std::map<std::string, std::string> aliases;
};
Truth TruthOf(const std::string& name);

// Recognised and described, or a test failure.
Checkpoint DescribeOrFail(ReadableFileSystem& files, const std::string& path);

// The elements of one shard and state, fetched one by one by the rules of storage.h.
std::string GatherShard(const Inventory& inventory, const Shard& shard, const std::string& state);

std::string Sha256(const std::string& bytes);

// Of every tensor that a conversion would write, if no tensor is cut: the states of trained parameters without the
// weight, the weight of all others, without aliases.
std::vector<LogicalTensor> WholeTensors(const Inventory& inventory);

// The files that `format` lays out for a checkpoint without tensor parallelism, with everything that it has.
// `settings` are those of the strategy.
llvm::Expected<TargetFiles> LayOutWhole(const Format& format, const Checkpoint& checkpoint,
                                        const std::string& settings = "");

}  // namespace ucp::testing
