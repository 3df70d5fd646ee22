#include "compiler/check/spec.h"

namespace ucp {
namespace {

class Collector {
 public:
  void Add(const Formula& formula) {
    std::vector<std::size_t> dims = DimsOf(formula);
    needed_.insert(needed_.end(), dims.begin(), dims.end());
  }

  void Add(const Pattern& pattern) {
    for (const PatternPiece& piece : pattern.pieces) Add(piece.number);
    for (const Counter& counter : pattern.counters) Add(counter.count);
  }

  void Add(const std::optional<StagesDeclaration>& stages) {
    if (!stages) return;
    for (const StageDeclaration& stage : stages->stages) {
      if (stage.number) Add(*stage.number);
    }
  }

  std::vector<std::size_t> Finish() && { return std::move(needed_); }

 private:
  std::vector<std::size_t> needed_;
};

}  // namespace

std::vector<std::size_t> NeededDims(const CheckedSpec& spec) {
  Collector collector;
  for (const TensorDeclaration& tensor : spec.tensors) {
    collector.Add(tensor.name);
    for (const Formula& dim : tensor.dims) collector.Add(dim);
    collector.Add(tensor.stages);
  }
  for (const TieDeclaration& tie : spec.ties) {
    collector.Add(tie.first);
    collector.Add(tie.second);
    collector.Add(tie.stages);
  }
  for (const Pattern& drop : spec.drops) collector.Add(drop);
  return std::move(collector).Finish();
}

}  // namespace ucp
