#include "runtime/formats/deepspeed/write/partitioned.h"

#include <algorithm>

#include "compiler/support/checked_math.h"
#include "runtime/formats/deepspeed/write/fused_experts.h"
#include "runtime/formats/deepspeed/write/loose_states.h"
#include "runtime/formats/deepspeed/write/optimizer_file.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

class RankWriter {
 public:
  RankWriter(const TargetRequest& request, const WriteOptions& options, const Carried& carried, const RankToWrite& rank,
             const ExpertsToWrite& experts, TargetFiles& target)
      : training_(request.training),
        options_(options),
        carried_(carried),
        rank_(rank),
        experts_(experts),
        target_(target) {}

  // Every partition's file says the same but for loose states and whose experts it has, and has its tensors in the same
  // order.
  void AddFiles(const std::string& folder) {
    const Coordinate& coordinate = rank_.coordinate;
    std::vector<std::string> paths;
    for (std::int64_t partition = 0; partition < options_.dp; ++partition) {
      paths.push_back(folder + "/" + OptimizerFileName(options_, {coordinate.At("tp"), partition}));
    }
    if (training_.loose_states.empty() && !experts_.are_fused()) {
      ArchiveComposer composer(training_);
      LooseStatesOfFile none;
      records_ = ucp::AddFiles(target_, paths, composer.Compose(File(0, composer, none)));
      return;
    }
    for (std::int64_t partition = 0; partition < options_.dp; ++partition) {
      ArchiveComposer composer(training_);
      LooseStatesOfFile loose;
      const ComposedArchive archive = composer.Compose(File(partition, composer, loose));
      records_.push_back(AddFile(target_, paths[static_cast<std::size_t>(partition)], archive));
      loose.AddShards(records_.back(), coordinate, target_);
    }
  }

  // What is no expert's, all expert ranks have alike.
  void AddShards() {
    for (std::size_t expert_rank = 0; expert_rank < rank_.groups.size(); ++expert_rank) {
      Coordinate holder = rank_.coordinate;
      holder.at["ep"] = static_cast<std::int64_t>(expert_rank);
      std::size_t next = 0;  // Of each file's records.
      for (const FlatGroupToWrite& sub_group : rank_.groups[expert_rank]) {
        const std::size_t first = next;
        next += StatesOf(sub_group).size();
        if (sub_group.of_experts) AddShardsOf(sub_group, first, holder);
        if (!sub_group.of_experts && expert_rank == 0) AddShardsOf(sub_group, first, rank_.coordinate);
      }
    }
  }

 private:
  void AddShardsOf(const FlatGroupToWrite& sub_group, std::size_t next, const Coordinate& coordinate) {
    BufferSet set;
    for (const LogicalTensor::State& state : StatesOf(sub_group)) {
      std::vector<RecordId> records;
      for (std::int64_t partition : sub_group.ranks) {
        records.push_back(records_[static_cast<std::size_t>(partition)][next]);
      }
      ++next;
      Buffer buffer = PartitionedBuffer(state.dtype, records, sub_group.parameters, target_);
      set.push_back({state.name, target_.storage.Add(std::move(buffer))});
    }
    const BufferSetId states = target_.storage.Add(std::move(set));
    for (const PlacedParameter& parameter : sub_group.parameters) {
      Shard shard;
      shard.tensor = parameter.tensor->name;
      shard.coordinate = coordinate;
      shard.shape = parameter.shape;
      shard.base = parameter.offset;
      shard.spread = Spread::kEachTensor;
      shard.states = states;
      target_.storage.shards.push_back(std::move(shard));
    }
  }

  ValuePtr File(std::int64_t partition, ArchiveComposer& composer, LooseStatesOfFile& loose) const {
    const auto expert_rank = static_cast<std::size_t>(experts_.ExpertRankOf(partition));
    const std::vector<FlatGroupToWrite>& sub_groups = rank_.groups[expert_rank];
    std::vector<ValuePtr> masters;
    std::vector<std::vector<Entry>> states_of_sub_group;
    for (std::size_t s = 0; s < sub_groups.size(); ++s) {
      const FlatGroupToWrite& sub_group = sub_groups[s];
      const OptimizerGroup& carried = training_.groups[sub_group.group];
      std::vector<Entry>& states = states_of_sub_group.emplace_back();
      if (carried.step) states.push_back({MakeText("step"), composer.AddValue(carried.step)});
      for (const LogicalTensor::State& tensor : StatesOf(sub_group)) {
        ValuePtr value = composer.AddTensor(tensor.dtype, {sub_group.partition_elements});
        if (tensor.name == kMasterState) {
          masters.push_back(std::move(value));
        } else {
          states.push_back({MakeText(tensor.name), std::move(value)});
        }
      }
    }
    // Their records come behind those of the states that every partition has.
    std::vector<Entry> state;
    for (std::size_t s = 0; s < sub_groups.size(); ++s) {
      std::vector<Entry>& states = states_of_sub_group[s];
      if (const FlatGroupToWrite& group = sub_groups[s]; !group.loose.empty()) {
        const auto part = std::find(group.ranks.begin(), group.ranks.end(), partition) - group.ranks.begin();
        for (Entry& entry : loose.Add(group.loose[static_cast<std::size_t>(part)], composer)) {
          states.push_back(std::move(entry));
        }
      }
      // Before the first step there are no states at all.
      if (!states.empty()) state.push_back({MakeInteger(static_cast<std::int64_t>(s)), MakeDict(std::move(states))});
    }
    ValuePtr base = MakeDict({{MakeText("state"), MakeDict(std::move(state))},
                              {MakeText("param_groups"), MakeList(ParamGroups(sub_groups, composer))}});
    std::vector<Entry> entries = {{MakeText("zero_stage"), ZeroStage(3)}};
    for (Entry& entry : LossScaleEntries(carried_, composer)) entries.push_back(std::move(entry));
    for (Entry& entry : composer.AddEntries(carried_.optimizer)) entries.push_back(std::move(entry));
    entries.push_back({MakeText("partition_count"), MakeInteger(options_.dp)});
    if (experts_.are_fused()) {
      entries.push_back({MakeText("ds_zero_partition_groups"), PartitionGroups(sub_groups, partition, options_.ep)});
    }
    entries.push_back({MakeText("optimizer_state_dict"), std::move(base)});
    entries.push_back({MakeText("fp32_flat_groups"), MakeList(std::move(masters))});
    return OptimizerFileRoot(std::move(entries), training_, carried_, composer);
  }

  // With the numbers of their sub-groups, which follow one another.
  std::vector<ValuePtr> ParamGroups(const std::vector<FlatGroupToWrite>& sub_groups, ArchiveComposer& composer) const {
    std::vector<ValuePtr> groups;
    for (std::size_t s = 0; s < sub_groups.size();) {
      const std::size_t group = sub_groups[s].group;
      std::vector<std::int64_t> numbers;
      for (; s < sub_groups.size() && sub_groups[s].group == group; ++s) {
        numbers.push_back(static_cast<std::int64_t>(s));
      }
      groups.push_back(ParamGroup(training_.groups[group], numbers, composer));
    }
    return groups;
  }

  const TrainingState& training_;
  const WriteOptions& options_;
  const Carried& carried_;
  const RankToWrite& rank_;
  const ExpertsToWrite& experts_;
  TargetFiles& target_;
  std::vector<std::vector<RecordId>> records_;  // By partition, in the order of sub-groups and their states.
};

}  // namespace

Buffer PartitionedBuffer(DType dtype, const std::vector<RecordId>& records, std::span<const PlacedParameter> parameters,
                         TargetFiles& target) {
  const auto partitions = static_cast<std::int64_t>(records.size());
  Buffer buffer;
  buffer.dtype = dtype;
  for (const PlacedParameter& parameter : parameters) {
    const std::int64_t width = CeilDivide(parameter.elements, partitions);
    buffer.part_elements += width;
    // The parts before are full.
    for (std::int64_t p = width == 0 ? partitions : parameter.elements / width; p < partitions; ++p) {
      const std::int64_t real = std::clamp<std::int64_t>(parameter.elements - p * width, 0, width);
      AddZeros(target, records[static_cast<std::size_t>(p)], dtype, parameter.offset + real, parameter.offset + width);
    }
  }
  for (RecordId record : records) buffer.parts.push_back({record, 0, buffer.part_elements});
  return buffer;
}

void AddPartitionedOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                                  const std::string& folder, const RankToWrite& rank, const ExpertsToWrite& experts,
                                  TargetFiles& target) {
  RankWriter writer(request, options, carried, rank, experts, target);
  writer.AddFiles(folder);
  writer.AddShards();
}

}  // namespace ucp::deepspeed
