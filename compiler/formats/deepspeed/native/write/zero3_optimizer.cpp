#include "compiler/formats/deepspeed/native/write/zero3_optimizer.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/native/write/folded_files.h"
#include "compiler/formats/deepspeed/native/write/fused_experts.h"
#include "compiler/formats/deepspeed/native/write/loose_states.h"
#include "compiler/formats/deepspeed/native/write/optimizer_file.h"
#include "compiler/support/checked_math.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

class RanksWriter {
 public:
  RanksWriter(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
              const std::vector<RankToWrite>& ranks, const ExpertsToWrite& experts, TargetFiles& target)
      : training_(request.training),
        options_(options),
        carried_(carried),
        ranks_(ranks),
        experts_(experts),
        target_(target) {}

  void AddFiles(const std::string& folder) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      AddFilesOf(r, folder);
      FindExperts(r);
    }
  }

  // Tensors that are not an expert's, all expert ranks have alike; what all ranks have of the same experts is entered
  // with the first one.
  void AddShards() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t expert_rank = 0; expert_rank < ranks_[r].groups.size(); ++expert_rank) {
        Coordinate holder = ranks_[r].coordinate;
        holder.at["ep"] = static_cast<std::int64_t>(expert_rank);
        std::size_t next = 0;  // Of each file's records.
        std::size_t of_experts = 0;
        for (const FlatGroupToWrite& sub_group : ranks_[r].groups[expert_rank]) {
          if (sub_group.of_experts) {
            if (r == 0) AddShardsOf(sub_group, RecordsOfExperts(sub_group, of_experts), holder);
            ++of_experts;
          } else if (expert_rank == 0) {
            AddShardsOf(sub_group, RecordsOf(r, next), ranks_[r].coordinate);
          }
          next += StatesOf(sub_group).size();
        }
      }
    }
  }

 private:
  // Where a partition's first record of a sub-group is; those of the other states follow.
  struct FirstRecord {
    const std::vector<RecordId>* of_file = nullptr;
    std::size_t index = 0;
  };

  // Every partition's file says the same but for loose states and whose experts it has, and has its tensors in the same
  // order.
  void AddFilesOf(std::size_t r, const std::string& folder) {
    const Coordinate& coordinate = ranks_[r].coordinate;
    std::vector<std::string> paths;
    for (std::int64_t partition = 0; partition < options_.dp; ++partition) {
      paths.push_back(folder + "/" + OptimizerFileName(options_, {coordinate.At("tp"), partition}));
    }
    std::vector<std::vector<RecordId>>& records = records_.emplace_back();
    if (training_.loose_states.empty() && !experts_.are_fused()) {
      ArchiveComposer composer(training_);
      LooseStatesOfFile none;
      records = ucp::AddFiles(target_, paths, composer.Compose(File(r, 0, composer, none)));
      return;
    }
    for (std::int64_t partition = 0; partition < options_.dp; ++partition) {
      ArchiveComposer composer(training_);
      LooseStatesOfFile loose;
      ComposedArchive archive = composer.Compose(File(r, partition, composer, loose));
      records.push_back(AddFile(target_, paths[static_cast<std::size_t>(partition)], std::move(archive)));
      loose.AddShards(records.back(), coordinate, target_);
    }
  }

  // Ranks can have other numbers of sub-groups before those of experts, of what they cut unevenly.
  void FindExperts(std::size_t r) {
    std::vector<std::size_t>& firsts = first_of_experts_.emplace_back();
    std::size_t next = 0;
    for (const FlatGroupToWrite& sub_group : ranks_[r].groups.front()) {
      if (sub_group.of_experts) firsts.push_back(next);
      next += StatesOf(sub_group).size();
    }
  }

  std::vector<FirstRecord> RecordsOf(std::size_t r, std::size_t first) const {
    std::vector<FirstRecord> records;
    for (const std::vector<RecordId>& of_file : records_[r]) records.push_back({&of_file, first});
    return records;
  }

  // Of the partitions that share the sub-group, which is the `index`th one of experts on each rank.
  std::vector<FirstRecord> RecordsOfExperts(const FlatGroupToWrite& sub_group, std::size_t index) const {
    std::vector<FirstRecord> records;
    for (std::int64_t number : sub_group.ranks) {
      const RankInFiles place = PlaceOfRank(number, experts_.tensor_ranks());
      const auto r = static_cast<std::size_t>(place.tensor_rank);
      records.push_back({&records_[r][static_cast<std::size_t>(place.partition)], first_of_experts_[r][index]});
    }
    return records;
  }

  void AddShardsOf(const FlatGroupToWrite& sub_group, const std::vector<FirstRecord>& firsts,
                   const Coordinate& coordinate) {
    BufferSet set;
    std::size_t next = 0;
    for (const LogicalTensor::State& state : StatesOf(sub_group)) {
      std::vector<RecordId> records;
      for (const FirstRecord& first : firsts) records.push_back((*first.of_file)[first.index + next]);
      ++next;
      Buffer buffer = PartitionedBuffer(state.dtype, records, sub_group.parameters, target_);
      set.push_back({state.name, target_.storage.Add(std::move(buffer))});
    }
    const BufferSetId states = target_.storage.Add(std::move(set));
    for (const PlacedParameter& parameter : sub_group.parameters) {
      Shard shard = ShardOf(parameter, coordinate, parameter.offset, states);
      shard.spread = Spread::kEachTensor;
      target_.storage.shards.push_back(std::move(shard));
    }
  }

  // The entries of one partition's file for its sub-groups.
  struct SubGroupEntries {
    std::vector<ValuePtr> masters;
    std::vector<std::vector<Entry>> states;  // By sub-group.
  };

  SubGroupEntries EntriesOf(const std::vector<FlatGroupToWrite>& sub_groups, ArchiveComposer& composer) const {
    SubGroupEntries all;
    for (const FlatGroupToWrite& sub_group : sub_groups) {
      const OptimizerGroup& carried = training_.groups[sub_group.group];
      std::vector<Entry>& states = all.states.emplace_back();
      if (carried.step) states.push_back({MakeText("step"), composer.AddValue(carried.step)});
      for (const LogicalTensor::State& tensor : StatesOf(sub_group)) {
        ValuePtr value = composer.AddTensor(tensor.dtype, {sub_group.partition_elements});
        if (tensor.name == kMasterState) {
          all.masters.push_back(std::move(value));
        } else {
          states.push_back({MakeText(tensor.name), std::move(value)});
        }
      }
    }
    return all;
  }

  // The records of loose states come behind those of the states that every partition has.
  static void AddLooseStates(const std::vector<FlatGroupToWrite>& sub_groups, RankInFiles place, std::int64_t number,
                             ArchiveComposer& composer, LooseStatesOfFile& loose, SubGroupEntries& all) {
    for (std::size_t s = 0; s < sub_groups.size(); ++s) {
      const FlatGroupToWrite& group = sub_groups[s];
      if (group.loose.empty()) continue;
      const std::int64_t own = group.of_experts ? number : place.partition;
      const auto part = std::find(group.ranks.begin(), group.ranks.end(), own) - group.ranks.begin();
      for (Entry& entry : loose.Add(group.loose[static_cast<std::size_t>(part)], composer)) {
        all.states[s].push_back(std::move(entry));
      }
    }
  }

  // Before the first step there are no states at all.
  static ValuePtr StateOfSubGroups(std::vector<std::vector<Entry>> states) {
    std::vector<Entry> state;
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (states[s].empty()) continue;
      state.push_back({MakeInteger(static_cast<std::int64_t>(s)), MakeDict(std::move(states[s]))});
    }
    return MakeDict(std::move(state));
  }

  ValuePtr File(std::size_t r, std::int64_t partition, ArchiveComposer& composer, LooseStatesOfFile& loose) const {
    const RankInFiles place{static_cast<std::int64_t>(r), partition};
    const std::int64_t number = experts_.NumberOf(place.tensor_rank, place.partition);
    const auto expert_rank = static_cast<std::size_t>(experts_.ExpertRankOf(number));
    const std::vector<FlatGroupToWrite>& sub_groups = ranks_[r].groups[expert_rank];
    SubGroupEntries own = EntriesOf(sub_groups, composer);
    AddLooseStates(sub_groups, place, number, composer, loose, own);
    ValuePtr base = MakeDict({{MakeText("state"), StateOfSubGroups(std::move(own.states))},
                              {MakeText("param_groups"), MakeList(ParamGroups(sub_groups, composer))}});
    std::vector<Entry> entries = {{MakeText("zero_stage"), ZeroStage(3)}};
    for (Entry& entry : LossScaleEntries(carried_, composer)) entries.push_back(std::move(entry));
    for (Entry& entry : composer.AddEntries(carried_.optimizer)) entries.push_back(std::move(entry));
    entries.push_back({MakeText("partition_count"), MakeInteger(options_.dp)});
    if (experts_.are_fused()) {
      entries.push_back({MakeText("ds_zero_partition_groups"), PartitionGroups(sub_groups, experts_, place)});
    }
    entries.push_back({MakeText("optimizer_state_dict"), std::move(base)});
    entries.push_back({MakeText("fp32_flat_groups"), MakeList(std::move(own.masters))});
    std::vector<Entry> file = OptimizerFileEntries(std::move(entries), training_, carried_, composer);
    AddFoldingOfOptimizer(options_, experts_, place, sub_groups, file);
    return MakeDict(std::move(file));
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
  const std::vector<RankToWrite>& ranks_;
  const ExpertsToWrite& experts_;
  TargetFiles& target_;
  // By rank and partition, in the order of sub-groups and their states.
  std::vector<std::vector<std::vector<RecordId>>> records_;
  std::vector<std::vector<std::size_t>> first_of_experts_;  // By rank: the first record of each sub-group of experts.
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
                                  const std::string& folder, const std::vector<RankToWrite>& ranks,
                                  const ExpertsToWrite& experts, TargetFiles& target) {
  RanksWriter writer(request, options, carried, ranks, experts, target);
  writer.AddFiles(folder);
  writer.AddShards();
}

}  // namespace ucp::deepspeed
