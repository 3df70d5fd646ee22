#include "compiler/formats/deepspeed/native/write/loose_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

std::string WhyNotCarried(const LooseState& state) {
  if (!state.why_not_carried.empty() || state.parameter.empty()) return state.why_not_carried;
  return "the files of DeepSpeed have no place for states by the names of parameters";
}

}  // namespace

LooseStatesToWrite::LooseStatesToWrite(const TrainingState& training, const WriteOptions& options)
    : training_(training), options_(options) {
  for (const LooseState& state : training.loose_states) {
    if (!WhyNotCarried(state).empty()) continue;
    std::vector<const LooseState*>& states = by_key_[KeyOf(state.belongs_to)];
    // Copies on several ranks are one.
    const bool is_there =
        std::any_of(states.begin(), states.end(), [&](const LooseState* other) { return other->name == state.name; });
    if (!is_there) states.push_back(&state);
  }
}

std::vector<SteppedElements> LooseStatesToWrite::SteppedIn(const FlatGroupToWrite& group) const {
  std::vector<SteppedPiece> all;
  for (const PlacedParameter& parameter : group.parameters) {
    all.push_back({0, parameter.tensor->name, parameter.held, 0, parameter.elements, parameter.offset});
  }
  std::vector<SteppedElements> stepped;
  if (options_.stage == 0 && options_.wrapper == WholeWrapper::kFused) return {{{group.elements}, std::move(all)}};
  if (options_.stage == 0) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].place = 0;
      stepped.push_back({group.parameters[i].shape, {std::move(all[i])}});
    }
    return stepped;
  }
  const std::int64_t count = std::ssize(group.ranks);
  for (std::int64_t p = 0; p < count; ++p) {
    stepped.push_back(options_.stage == 3 ? PartOfEach(all, group.partition_elements, count, p)
                                          : PartOfVector(all, group.partition_elements, p));
  }
  return stepped;
}

void LooseStatesToWrite::GiveTo(std::vector<FlatGroupToWrite>& groups) {
  if (training_.loose_states.empty()) return;
  for (FlatGroupToWrite& group : groups) {
    for (SteppedElements& stepped : SteppedIn(group)) {
      const std::string key = KeyOf(stepped);
      auto found = by_key_.find(key);
      if (found != by_key_.end()) given_.insert(key);
      group.loose.push_back(found == by_key_.end() ? std::vector<const LooseState*>() : found->second);
      for (const SteppedPiece& piece : stepped.pieces) of_tensor_[piece.tensor].push_back(stepped);
    }
  }
}

const SteppedElements* LooseStatesToWrite::InItsPlace(const SteppedElements& source) const {
  if (source.pieces.empty()) return nullptr;
  const SteppedPiece& first = source.pieces.front();
  auto found = of_tensor_.find(first.tensor);
  if (found == of_tensor_.end()) return nullptr;
  for (const SteppedElements& stepped : found->second) {
    for (const SteppedPiece& piece : stepped.pieces) {
      if (piece.tensor == first.tensor && piece.begin <= first.begin && first.begin < piece.end) return &stepped;
    }
  }
  return &found->second.front();
}

llvm::Error LooseStatesToWrite::CheckAllGiven() const {
  for (const LooseState& state : training_.loose_states) {
    std::string why = WhyNotCarried(state);
    if (why.empty()) {
      if (given_.contains(KeyOf(state.belongs_to))) continue;
      const SteppedElements* other = InItsPlace(state.belongs_to);
      why = fmt::format("the target steps {}", other == nullptr ? "none of these" : ToString(*other));
    }
    return Fail(ErrorCode::kUnsupported,
                "{}: it is not one number for each element, and stays as it is only with the same elements in the same "
                "places. It belongs to {}, and {}. Choose degrees, stage and sizes that cut them alike, or leave it "
                "out with {}",
                state.sentence, ToString(state.belongs_to), why, OptionName(UserOption::kDropStates, state.name));
  }
  return llvm::Error::success();
}

std::vector<pytorch::Entry> LooseStatesOfFile::Add(const std::vector<const LooseState*>& states,
                                                   ArchiveComposer& composer) {
  std::vector<pytorch::Entry> entries;
  for (const LooseState* state : states) {
    pytorch::ValuePtr value = pytorch::ReplaceTensors(state->value, [&](const pytorch::ValuePtr& found) {
      const std::string& key = found->As<pytorch::Tensor>()->storage->key;
      std::size_t place = 0;
      std::from_chars(key.data(), key.data() + key.size(), place);
      UCP_CHECK(place < state->tensors.size(), "`{}` has {} tensors and names {}", state->name, state->tensors.size(),
                place);
      const LooseTensor& tensor = state->tensors[place];
      added_.push_back({composer.tensors_to_come(), &tensor});
      return composer.AddTensor(tensor.dtype, tensor.sizes);
    });
    entries.push_back({pytorch::MakeText(state->name), std::move(value)});
  }
  return entries;
}

void LooseStatesOfFile::AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate,
                                  TargetFiles& target) const {
  for (const Added& added : added_) {
    std::int64_t elements = 1;
    for (std::int64_t size : added.tensor->sizes) elements *= size;
    Buffer buffer{added.tensor->dtype, elements, {{records[added.record], 0, elements}}};
    Shard shard;
    shard.tensor = added.tensor->name;
    shard.kind = TensorKind::kBuffer;
    shard.coordinate = coordinate;
    shard.shape = added.tensor->sizes;
    shard.states = target.storage.Add(BufferSet{{kWeightState, target.storage.Add(std::move(buffer))}});
    target.storage.shards.push_back(std::move(shard));
  }
}

}  // namespace ucp::deepspeed
