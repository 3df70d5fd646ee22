// Repeated names become patterns: tensors whose names differ in a number, and that are declared alike, are one item
// with a counter. Layers that differ stand under `when`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ucp {

// One tensor, with everything that the draft says behind its name.
struct DraftTensor {
  std::string name;
  std::string marker;                     // "buffer " before the name, or nothing.
  std::string shape;                      // "[hidden, ffn@tp]"; with questions, the first of the readings.
  std::string stages;                     // " at pp.first", where no counter over the stages says it.
  std::vector<std::string> other_shapes;  // The other readings.
  bool open = false;                      // Nothing tells which reading is right: the item is a comment.
  std::string question;                   // Empty for none.
  std::string note;
  std::vector<std::int64_t> on_stages;
};

struct DraftNode {
  enum class Kind { kTensor, kBlock, kWhen };
  Kind kind = Kind::kTensor;
  std::string text;              // The name pattern, or the condition.
  DraftTensor tensor;            // kTensor: of the first of those that it stands for.
  std::vector<DraftNode> items;  // kBlock, kWhen.
};

// `pipeline_stages` more than one: counters whose layers are each on one stage are cut over pp. `count` names how far a
// counter counts.
class NumberNames;
std::vector<DraftNode> GroupNames(const std::vector<DraftTensor>& tensors, std::int64_t pipeline_stages,
                                  NumberNames& names);

}  // namespace ucp
