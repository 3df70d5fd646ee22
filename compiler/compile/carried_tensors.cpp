#include "compiler/compile/carried_tensors.h"

#include <fmt/format.h>

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

// A state does not fit elements that are averaged or scaled on their way.
std::string WhyNotCarried(const TensorLayout& tensor) {
  if (tensor.scale == Scale{} && tensor.mean_axes.empty()) return "";
  return fmt::format("the elements of `{}` become others by {}", tensor.name, tensor.declared_at);
}

llvm::Error NamePieces(const Layout& layout, const Storage& storage, LooseState& state) {
  for (SteppedPiece& piece : state.belongs_to.pieces) {
    const Shard& shard = storage.shards[piece.shard];
    const TensorLayout* tensor = layout.Find(shard.tensor);
    piece.tensor = tensor == nullptr ? shard.tensor : tensor->name;
    if (tensor == nullptr) {
      state.why_not_carried = fmt::format("the spec drops `{}`", shard.tensor);
      continue;
    }
    UCP_ASSIGN_OR_RETURN(ProductSet held, HeldAt(*tensor, layout.mesh, shard.coordinate));
    piece.held = ToString(held);
    if (state.why_not_carried.empty()) state.why_not_carried = WhyNotCarried(*tensor);
  }
  return llvm::Error::success();
}

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

Shard ShardOf(const LargeTensor& tensor) {
  Shard shard;
  shard.tensor = tensor.name;
  shard.kind = TensorKind::kCarried;
  shard.shape = tensor.sizes;
  shard.strides = tensor.strides;
  shard.base = tensor.base;
  shard.states = tensor.states;
  return shard;
}

// By name; copies of a state have one name.
using AddedTensors = std::map<std::string, TensorLayout>;

AddedTensors LayoutsOfLoose(const TrainingState& training) {
  AddedTensors added;
  for (const LooseState& state : training.loose_states) {
    for (const LooseTensor& tensor : state.tensors) added[tensor.name] = WholeLayoutOf(tensor.name, tensor.sizes);
  }
  return added;
}

void AddTo(Layout& layout, const AddedTensors& added) {
  for (const auto& [name, tensor] : added) layout.tensors.push_back(tensor);
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const TensorLayout& a, const TensorLayout& b) { return a.name < b.name; });
}

}  // namespace

llvm::Error NameLooseStates(const Layout& layout, Checkpoint& checkpoint) {
  std::map<std::string, const LooseState*> first_of_name;
  for (LooseState& state : checkpoint.training.loose_states) {
    UCP_RETURN_IF_ERROR(NamePieces(layout, checkpoint.inventory.storage, state));
    const std::string name =
        fmt::format("{} of {}, {}", state.name, ToString(state.belongs_to), KeyOf(state.belongs_to));
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      state.tensors[i].name = i == 0 ? name : fmt::format("{}, {}", name, i);
    }
    const LooseState& first = *first_of_name.try_emplace(name, &state).first->second;
    if (HaveSameForm(first, state)) continue;
    return Fail(ErrorCode::kBadData, "the ranks have copies of {}, and `{}` of it in different forms: {}; {}",
                ToString(state.belongs_to), state.name, first.sentence, state.sentence);
  }
  return llvm::Error::success();
}

BoundSource WithLooseStates(BoundSource source) {
  if (source.checkpoint.training.loose_states.empty()) return source;
  AddLooseShards(source.checkpoint);
  const AddedTensors added = LayoutsOfLoose(source.checkpoint.training);
  AddTo(source.layout, added);
  AddTo(source.held, added);
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
    sides.source.checkpoint.inventory.storage.shards.push_back(ShardOf(tensor));
    added[tensor.name] = WholeLayoutOf(tensor.name, tensor.sizes);
  }
  for (Layout* layout : {&sides.source.layout, &sides.source.held, &sides.target}) AddTo(*layout, added);
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
