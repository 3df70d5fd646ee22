#include "compiler/formats/deepspeed/native/write/muon.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/muon_groups.h"
#include "compiler/formats/deepspeed/native/write/optimizer_file.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

bool KeepsWholeMatrices(const WriteOptions& options) {
  return (options.stage == 1 || options.stage == 2) && !options.bf16_optimizer && !options.offloads_to_cpu;
}

}  // namespace

llvm::Error CheckMuonIsWritten(const TrainingState& training, const WriteOptions& options) {
  if (!KeepsWholeMatrices(options)) return llvm::Error::success();
  for (std::size_t g = 0; g < training.groups.size(); ++g) {
    if (!IsMuonGroup(*training.groups[g].hyper_parameters)) continue;
    const char* setting = options.elastic ? "elastic=true" : options.ep > 1 ? "ep" : nullptr;
    if (setting == nullptr) continue;
    return Fail(ErrorCode::kUnsupported,
                "group {} of the source's optimizer is Muon's, which no engine was seen to load at zero={} with {}; "
                "leave that out, or convert to `universal`",
                g, options.stage, setting);
  }
  return llvm::Error::success();
}

const LogicalTensor::State* StateOfWholeMatrices(const FlatGroupToWrite& group, const TrainingState& training,
                                                 const WriteOptions& options) {
  if (!KeepsWholeMatrices(options) || !IsMuonGroup(*training.groups[group.group].hyper_parameters)) return nullptr;
  const std::vector<LogicalTensor::State>& states = StatesOf(group);
  auto state = std::find_if(states.begin(), states.end(),
                            [](const LogicalTensor::State& other) { return other.name == kMomentumState; });
  return state == states.end() ? nullptr : &*state;
}

std::optional<pytorch::Entry> WholeMatricesOfFile::Add(const FlatGroupToWrite& group, std::int64_t partition,
                                                       const LogicalTensor::State& state, ArchiveComposer& composer) {
  const std::int64_t begin = partition * group.partition_elements;
  const std::int64_t end = begin + group.partition_elements;
  Added added{composer.tensors_to_come(), state, {}, 0};
  for (const PlacedParameter& parameter : group.parameters) {
    if (parameter.elements == 0 || parameter.offset >= end || parameter.offset + parameter.elements <= begin) continue;
    added.matrices.push_back(&parameter);
    added.elements += parameter.elements;
  }
  if (added.matrices.empty()) return std::nullopt;
  pytorch::Entry entry{pytorch::MakeText(state.name), composer.AddTensor(state.dtype, {added.elements})};
  added_.push_back(std::move(added));
  return entry;
}

void WholeMatricesOfFile::AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate,
                                    TargetFiles& target) const {
  for (const Added& added : added_) {
    Buffer buffer{added.state.dtype, added.elements, {{records[added.record], 0, added.elements}}};
    const BufferSetId states = target.storage.Add(BufferSet{{added.state.name, target.storage.Add(std::move(buffer))}});
    std::int64_t place = 0;
    for (const PlacedParameter* matrix : added.matrices) {
      target.storage.shards.push_back(ShardOf(*matrix, coordinate, place, states));
      place += matrix->elements;
    }
  }
}

}  // namespace ucp::deepspeed
