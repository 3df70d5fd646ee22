#include "compiler/formats/deepspeed/native/write/zero0_optimizer.h"

#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/loss_scale.h"
#include "compiler/formats/deepspeed/native/write/folded_files.h"
#include "compiler/formats/deepspeed/native/write/optimizer_file.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

ValuePtr WholeOptimizerToWrite::Add() {
  const bool is_flat = options_.wrapper == WholeWrapper::kFused;
  std::vector<ValuePtr> param_groups, masters;
  std::vector<Entry> state;
  std::int64_t next = 0;
  for (const FlatGroupToWrite& group : groups_) {
    std::vector<ValuePtr> of_group;
    std::vector<std::int64_t> numbers;
    const std::span<const PlacedParameter> parameters = group.parameters;
    const std::size_t count = is_flat ? 1 : parameters.size();
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Entry> states = AddStepped(group, is_flat ? parameters : parameters.subspan(i, 1), of_group);
      if (!group.loose.empty()) {
        for (Entry& entry : loose_.Add(group.loose[i], composer_)) states.push_back(std::move(entry));
      }
      // Before the first step there are no states at all.
      if (!states.empty()) state.push_back({MakeInteger(next), MakeDict(std::move(states))});
      numbers.push_back(next++);
    }
    param_groups.push_back(ParamGroup(training_.groups[group.group], numbers, composer_));
    masters.push_back(is_flat ? of_group.front() : MakeList(std::move(of_group)));
  }
  ValuePtr base = MakeDict(
      {{MakeText("state"), MakeDict(std::move(state))}, {MakeText("param_groups"), MakeList(std::move(param_groups))}});
  if (options_.wrapper == WholeWrapper::kNone) return base;
  std::vector<Entry> entries;
  if (!is_flat || options_.dtype == DType::kFloat16) {
    ValuePtr steps = FindEntry(carried_.engine, "global_steps");
    entries = composer_.AddEntries(LossScaleNumbers(*carried_.loss_scaler, steps ? steps : MakeInteger(0)));
  }
  entries.push_back({MakeText("optimizer_state_dict"), std::move(base)});
  entries.push_back({MakeText(is_flat ? "fp32_groups_flat" : "fp32_groups"), MakeList(std::move(masters))});
  for (Entry& entry : composer_.AddEntries(carried_.optimizer)) entries.push_back(std::move(entry));
  return MakeDict(std::move(entries));
}

std::vector<Entry> WholeOptimizerToWrite::AddStepped(const FlatGroupToWrite& group,
                                                     std::span<const PlacedParameter> parameters,
                                                     std::vector<ValuePtr>& masters) {
  const bool is_flat = options_.wrapper == WholeWrapper::kFused;
  Stepped stepped{parameters,
                  group.of_experts,
                  is_flat ? group.elements : parameters.front().elements,
                  {},
                  composer_.tensors_to_come()};
  std::vector<Entry> states;
  if (const ValuePtr& step = training_.groups[group.group].step) {
    states.push_back({MakeText("step"), composer_.AddValue(step)});
  }
  for (const LogicalTensor::State& state : parameters.front().tensor->states) {
    const bool is_master = state.name == kMasterState;
    if (is_master && options_.wrapper == WholeWrapper::kNone) continue;
    ValuePtr value = composer_.AddTensor(state.dtype, is_flat ? std::vector{group.elements} : parameters.front().shape);
    stepped.states.push_back(state);
    if (is_master) {
      masters.push_back(std::move(value));
    } else {
      states.push_back({MakeText(state.name), std::move(value)});
    }
  }
  stepped_.push_back(std::move(stepped));
  return states;
}

void WholeOptimizerToWrite::AddShards(const std::vector<RecordId>& records, const Coordinate& coordinate,
                                      std::int64_t expert_rank, TargetFiles& target) const {
  loose_.AddShards(records, coordinate, target);
  Coordinate holder = coordinate;
  holder.at["ep"] = expert_rank;
  for (const Stepped& stepped : stepped_) {
    if (stepped.states.empty()) continue;
    BufferSet set;
    for (std::size_t i = 0; i < stepped.states.size(); ++i) {
      Buffer buffer;
      buffer.dtype = stepped.states[i].dtype;
      buffer.part_elements = stepped.elements;
      buffer.parts.push_back({records[stepped.first_record + i], 0, stepped.elements});
      set.push_back({stepped.states[i].name, target.storage.Add(std::move(buffer))});
    }
    const BufferSetId states = target.storage.Add(std::move(set));
    for (const PlacedParameter& parameter : stepped.parameters) {
      const std::int64_t base = parameter.offset - stepped.parameters.front().offset;
      target.storage.shards.push_back(ShardOf(parameter, stepped.of_experts ? holder : coordinate, base, states));
    }
  }
}

void AddExpertOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                             const std::string& folder, const Coordinate& coordinate, const ExpertsToWrite& experts,
                             const std::vector<std::vector<FlatGroupToWrite>>& groups, TargetFiles& target) {
  const std::int64_t mp = coordinate.At("pp") * options.tp + coordinate.At("tp");
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    const auto number = static_cast<std::int64_t>(rank);
    if (!experts.IsSavedBy(coordinate.At("tp"), number)) continue;
    ArchiveComposer composer(request.training);
    WholeOptimizerToWrite optimizer(request.training, options, carried, groups[rank], composer);
    std::vector<Entry> entries = {{MakeText("optimizer"), optimizer.Add()}};
    AddFoldingOfExperts(options, experts, coordinate.At("tp"), number, entries);
    ComposedArchive archive = composer.Compose(MakeDict(std::move(entries)));
    const std::vector<RecordId> records =
        AddFile(target, folder + "/" + ExpertOptimizerName(mp, number), std::move(archive));
    optimizer.AddShards(records, coordinate, number, target);
  }
}

}  // namespace ucp::deepspeed
