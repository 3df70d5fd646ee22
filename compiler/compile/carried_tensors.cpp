#include "compiler/compile/carried_tensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/planner/join.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// As the target has it, and as the source's shards are cut.
struct AddedTensor {
  TensorLayout whole;
  TensorLayout stored;
};
// By name; copies of a state have one name.
using AddedTensors = std::map<std::string, AddedTensor>;

TensorLayout WholeLayoutOf(const std::string& name, const std::vector<std::int64_t>& sizes) {
  TensorLayout whole;
  whole.name = name;
  whole.declared_at = "the checkpoint";
  for (std::int64_t size : sizes) whole.dims.push_back(ShapeExpr::Length(size));
  return whole;
}

void AddLooseShards(Checkpoint& checkpoint) {
  Storage& storage = checkpoint.inventory.storage;
  for (const LooseState& state : checkpoint.training.loose_states) {
    const std::vector<SteppedPiece>& pieces = state.belongs_to.pieces;
    const Coordinate coordinate = pieces.empty() ? Coordinate{} : storage.shards[pieces.front().shard].coordinate;
    for (const LooseTensor& tensor : state.tensors) {
      Shard shard;
      shard.tensor = tensor.name;
      shard.kind = TensorKind::kBuffer;  // Nobody trains it.
      shard.coordinate = coordinate;
      shard.shape = tensor.sizes;
      shard.base = tensor.base;
      shard.states = tensor.states;
      storage.shards.push_back(std::move(shard));
    }
  }
}

AddedTensors LayoutsOfLoose(const TrainingState& training) {
  AddedTensors added;
  for (const LooseState& state : training.loose_states) {
    for (const LooseTensor& tensor : state.tensors) {
      const TensorLayout whole = WholeLayoutOf(tensor.name, tensor.sizes);
      added[tensor.name] = {whole, whole};
    }
  }
  return added;
}

AddedTensor LayoutsOfLarge(const LargeTensor& tensor) {
  AddedTensor added;
  added.whole = WholeLayoutOf(tensor.name, tensor.sizes);
  added.stored = added.whole;
  if (tensor.boxes.size() > 1) added.stored.boxes = tensor.boxes;
  return added;
}

void AddTo(Layout& layout, const AddedTensors& added, TensorLayout AddedTensor::* of) {
  for (const auto& [name, tensor] : added) layout.tensors.push_back(tensor.*of);
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const TensorLayout& a, const TensorLayout& b) { return a.name < b.name; });
}

}  // namespace

BoundSource WithLooseStates(BoundSource source) {
  if (source.checkpoint.training.loose_states.empty()) return source;
  AddLooseShards(source.checkpoint);
  const AddedTensors added = LayoutsOfLoose(source.checkpoint.training);
  AddTo(source.layout, added, &AddedTensor::whole);
  AddTo(source.stored_layout, added, &AddedTensor::stored);
  return source;
}

llvm::Expected<Sides> WithCarriedTensors(Sides sides, const TargetFiles& target, bool loose_states) {
  const TrainingState& training = sides.source.checkpoint.training;
  AddedTensors added;
  if (loose_states) {
    added = LayoutsOfLoose(training);
    AddLooseShards(sides.source.checkpoint);
  }
  std::set<std::string_view> held;
  for (const Shard& shard : target.storage.shards) {
    if (shard.kind == TensorKind::kCarried) held.insert(shard.tensor);
  }
  for (const LargeTensor& tensor : training.large_tensors) {
    if (!held.contains(tensor.name)) continue;
    std::vector<Shard>& shards = sides.source.checkpoint.inventory.storage.shards;
    shards.insert(shards.end(), tensor.shards.begin(), tensor.shards.end());
    added[tensor.name] = LayoutsOfLarge(tensor);
  }
  AddTo(sides.source.layout, added, &AddedTensor::whole);
  AddTo(sides.source.stored_layout, added, &AddedTensor::stored);
  AddTo(sides.target, added, &AddedTensor::whole);
  UCP_ASSIGN_OR_RETURN(sides.tensors, JoinTensors(sides.source.layout, sides.source.checkpoint.inventory));
  return sides;
}

llvm::Error CheckNoLooseStates(const TrainingState& training, std::string_view format) {
  if (training.loose_states.empty()) return llvm::Error::success();
  const LooseState& state = training.loose_states.front();
  return Fail(ErrorCode::kUnsupported,
              "{}: it is not one number for each element, and `{}` has no place for it; {} leaves it out",
              state.sentence, format, OptionName(UserOption::kDropStates, state.name));
}

}  // namespace ucp
