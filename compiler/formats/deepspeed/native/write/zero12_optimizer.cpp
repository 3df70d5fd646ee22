#include "compiler/formats/deepspeed/native/write/zero12_optimizer.h"

#include <algorithm>
#include <utility>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/native/write/folded_files.h"
#include "compiler/formats/deepspeed/native/write/job/elastic.h"
#include "compiler/formats/deepspeed/native/write/optimizer_file.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/parallel.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

// deepspeed.utils.tensor_fragment.fragment_address, without its constructor being called.
ValuePtr FragmentAddress(std::int64_t start, std::int64_t elements) {
  // A file has one of each, however many parameters it names.
  static const ValuePtr address_class = pytorch::MakeGlobal("deepspeed.utils.tensor_fragment", "fragment_address");
  static const ValuePtr no_arguments = pytorch::MakeTuple({});
  static const ValuePtr numel = MakeText("numel");
  static const ValuePtr start_key = MakeText("start");
  pytorch::Call call;
  call.form = pytorch::Call::Form::kNewObject;
  call.callable = address_class;
  call.arguments = no_arguments;
  call.state = MakeDict({{numel, MakeInteger(elements)}, {start_key, MakeInteger(start)}});
  return pytorch::MakeCall(std::move(call));
}

// The common statements of the files, and the common places of elements in them.
class FlatFiles {
 public:
  FlatFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
            const std::vector<RankToWrite>& ranks, const ExpertsToWrite& experts)
      : training_(request.training), options_(options), carried_(carried), ranks_(ranks), experts_(experts) {}

 protected:
  // The states that lie as the flat vector does.
  std::vector<LogicalTensor::State> FlatStatesOf(const FlatGroupToWrite& group) const {
    std::vector<LogicalTensor::State> states = StatesOf(group);
    const LogicalTensor::State* other = StateOfWholeMatrices(group, training_, options_);
    if (other != nullptr) std::erase(states, *other);
    return states;
  }

  // How many elements of a partition are not padding at the end of the group.
  std::int64_t RealElements(const FlatGroupToWrite& group, std::int64_t partition) const {
    return std::clamp<std::int64_t>(group.elements - partition * group.partition_elements, 0, group.partition_elements);
  }

  // Stages 1 and 2 store masters without that padding, and all else with it, unless they list the states.
  std::int64_t StoredElements(const FlatGroupToWrite& group, const std::string& state, std::int64_t partition) const {
    const bool is_short = (state == kMasterState || options_.lists_states) && !options_.bf16_optimizer;
    return is_short ? RealElements(group, partition) : group.partition_elements;
  }

  // The part of a group in a partition of a tensor-parallel rank.
  std::int64_t PartitionOf(const FlatGroupToWrite& group, std::size_t rank, std::int64_t partition) const {
    if (!group.of_experts) return partition;
    const std::int64_t number = experts_.NumberOf(static_cast<std::int64_t>(rank), partition);
    return std::find(group.ranks.begin(), group.ranks.end(), number) - group.ranks.begin();
  }

  const TrainingState& training_;
  const WriteOptions& options_;
  const Carried& carried_;
  const std::vector<RankToWrite>& ranks_;
  const ExpertsToWrite& experts_;
};

class FileComposer : FlatFiles {
 public:
  using FlatFiles::FlatFiles;

  ComposedFlatFile Compose(std::size_t rank, std::int64_t partition) const {
    ComposedFlatFile file;
    ArchiveComposer composer(training_);
    file.archive = composer.Compose(FileOf(rank, partition, composer, file.loose, file.matrices));
    return file;
  }

 private:
  // Partitions are counted in each group; a file has one of each.
  ValuePtr FileOf(std::size_t rank, std::int64_t of_rank, ArchiveComposer& composer, LooseStatesOfFile& loose,
                  WholeMatricesOfFile& matrices) const {
    const std::int64_t expert_rank = experts_.ExpertRankOf(experts_.NumberOf(static_cast<std::int64_t>(rank), of_rank));
    const std::vector<FlatGroupToWrite>& groups = ranks_[rank].groups[static_cast<std::size_t>(expert_rank)];
    std::vector<ValuePtr> masters, listed, param_groups, paddings, alignment, counts, mappings;
    std::vector<std::vector<Entry>> states_of_group;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const FlatGroupToWrite& group = groups[g];
      const std::int64_t partition = PartitionOf(group, rank, of_rank);
      const OptimizerGroup& carried = training_.groups[group.group];
      std::vector<Entry>& states = states_of_group.emplace_back();
      if (carried.step) states.push_back({MakeText("step"), composer.AddValue(carried.step)});
      for (const LogicalTensor::State& tensor : FlatStatesOf(group)) {
        ValuePtr value = composer.AddTensor(tensor.dtype, {StoredElements(group, tensor.name, partition)});
        if (tensor.name == kMasterState) {
          masters.push_back(std::move(value));
        } else {
          states.push_back({MakeText(tensor.name), std::move(value)});
        }
      }
      param_groups.push_back(ParamGroup(carried, {static_cast<std::int64_t>(g)}, composer));
      paddings.push_back(MakeInteger(PaddingOf(group, partition)));
      alignment.push_back(AlignmentOf(group));
      counts.push_back(MakeInteger(std::ssize(group.ranks)));
      mappings.push_back(MappingOf(group, partition));
    }
    // The records of what follows come behind those of the states that every rank has.
    std::vector<Entry> state;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<Entry>& states = states_of_group[g];
      const std::int64_t partition = PartitionOf(groups[g], rank, of_rank);
      AddWholeMatrices(groups[g], partition, composer, matrices, states);
      if (!groups[g].loose.empty()) {
        const std::vector<const LooseState*>& held = groups[g].loose[static_cast<std::size_t>(partition)];
        for (Entry& entry : loose.Add(held, composer)) states.push_back(std::move(entry));
      }
      if (options_.lists_states) {
        listed.push_back(MakeDict(std::move(states)));
      } else if (!states.empty()) {  // Before the first step there are no states at all.
        state.push_back({MakeInteger(static_cast<std::int64_t>(g)), MakeDict(std::move(states))});
      }
    }
    ValuePtr base = MakeDict({{MakeText("state"), MakeDict(std::move(state))},
                              {MakeText("param_groups"), MakeList(std::move(param_groups))}});
    std::vector<Entry> entries;
    if (!options_.bf16_optimizer) entries = LossScaleEntries(carried_, composer);
    for (Entry& entry : composer.AddEntries(carried_.optimizer)) entries.push_back(std::move(entry));
    if (options_.lists_states) {
      entries.push_back({MakeText("base_optimizer_state"), MakeList(std::move(listed))});
      entries.push_back({MakeText("base_optimizer_state_step"), composer.AddValue(StepBesideStates(training_))});
    } else {
      entries.push_back({MakeText("base_optimizer_state"), std::move(base)});
    }
    entries.push_back({MakeText("single_partition_of_fp32_groups"), MakeList(std::move(masters))});
    if (!options_.bf16_optimizer) entries.push_back({MakeText("zero_stage"), ZeroStage(options_.stage)});
    entries.push_back({MakeText("group_paddings"), MakeList(std::move(paddings))});
    if (!options_.bf16_optimizer) {
      entries.push_back({MakeText("param_alignment_paddings"), MakeList(std::move(alignment))});
    }
    entries.push_back({MakeText("partition_count"), MakeList(std::move(counts))});
    entries.push_back({MakeText("ds_version"), VersionOf(training_)});
    entries.push_back({MakeText("param_slice_mappings"), MakeList(std::move(mappings))});
    std::vector<Entry> file = OptimizerFileEntries(std::move(entries), training_, carried_, composer);
    AddFoldingOfOptimizer(options_, experts_, {static_cast<std::int64_t>(rank), of_rank}, groups, file);
    return MakeDict(std::move(file));
  }

  void AddWholeMatrices(const FlatGroupToWrite& group, std::int64_t partition, ArchiveComposer& composer,
                        WholeMatricesOfFile& matrices, std::vector<Entry>& states) const {
    const LogicalTensor::State* state = StateOfWholeMatrices(group, training_, options_);
    if (state == nullptr) return;
    if (std::optional<Entry> entry = matrices.Add(group, partition, *state, composer)) {
      states.push_back(std::move(*entry));
    }
  }

  // The value that each class writes there: BF16_Optimizer tells the last partition of all the padding, and the others
  // of none.
  std::int64_t PaddingOf(const FlatGroupToWrite& group, std::int64_t partition) const {
    if (!options_.bf16_optimizer) return group.partition_elements - RealElements(group, partition);
    const std::int64_t partitions = std::ssize(group.ranks);
    return partition + 1 == partitions ? group.partition_elements * partitions - group.elements : 0;
  }

  static ValuePtr AlignmentOf(const FlatGroupToWrite& group) {
    std::vector<ValuePtr> paddings;
    for (const PlacedParameter& parameter : group.parameters) paddings.push_back(MakeInteger(parameter.padding));
    return MakeList(std::move(paddings));
  }

  // The parameters that lie in a partition, and where.
  static ValuePtr MappingOf(const FlatGroupToWrite& group, std::int64_t partition) {
    const std::int64_t begin = partition * group.partition_elements;
    const std::int64_t end = begin + group.partition_elements;
    std::vector<Entry> mapping;
    for (const PlacedParameter& parameter : group.parameters) {
      const std::int64_t from = std::max(parameter.offset, begin);
      const std::int64_t to = std::min(parameter.offset + parameter.elements, end);
      if (from < to) mapping.push_back({MakeText(parameter.name), FragmentAddress(from - begin, to - from)});
    }
    return pytorch::MakeOrderedDict(std::move(mapping));
  }
};

class FilesAdder : FlatFiles {
 public:
  FilesAdder(const FlatFiles& files, TargetFiles& target) : FlatFiles(files), target_(target) {}

  void AddFiles(const std::string& folder, std::vector<ComposedFlatFile>& composed) {
    auto file = composed.begin();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Coordinate& coordinate = ranks_[r].coordinate;
      const std::int64_t mp = coordinate.At("pp") * options_.tp + coordinate.At("tp");
      records_.emplace_back();
      for (std::int64_t partition = 0; partition < options_.dp; ++partition, ++file) {
        const std::string path = folder + "/" + OptimizerFileName(options_, {mp, partition});
        records_[r].push_back(AddFile(target_, path, std::move(file->archive)));
        file->loose.AddShards(records_[r].back(), coordinate, target_);
        file->matrices.AddShards(records_[r].back(), coordinate, target_);
      }
    }
  }

  // The same experts of all ranks are entered with the first one.
  void AddShards() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t expert_rank = 0; expert_rank < ranks_[r].groups.size(); ++expert_rank) {
        Coordinate holder = ranks_[r].coordinate;
        if (experts_.any()) holder.at["ep"] = static_cast<std::int64_t>(expert_rank);
        std::size_t next = 0;  // Of each file's records.
        for (const FlatGroupToWrite& group : ranks_[r].groups[expert_rank]) {
          const std::size_t first = next;
          next += FlatStatesOf(group).size();
          const bool is_first = group.of_experts ? r == 0 : expert_rank == 0;
          if (is_first) AddShardsOf(r, group, first, group.of_experts ? holder : ranks_[r].coordinate);
        }
      }
    }
  }

 private:
  void AddShardsOf(std::size_t rank, const FlatGroupToWrite& group, std::size_t first_record,
                   const Coordinate& coordinate) {
    BufferSet set;
    for (const LogicalTensor::State& state : FlatStatesOf(group)) {
      set.push_back({state.name, AddBuffer(rank, group, state, first_record++)});
    }
    const BufferSetId states = target_.storage.Add(std::move(set));
    for (const PlacedParameter& parameter : group.parameters) {
      target_.storage.shards.push_back(ShardOf(parameter, coordinate, parameter.offset, states));
    }
  }

  BufferId AddBuffer(std::size_t rank, const FlatGroupToWrite& group, const LogicalTensor::State& state,
                     std::size_t record) {
    Buffer buffer;
    buffer.dtype = state.dtype;
    buffer.part_elements = group.partition_elements;
    for (std::int64_t partition = 0; partition < std::ssize(group.ranks); ++partition) {
      const std::int64_t number = group.ranks[static_cast<std::size_t>(partition)];
      RankInFiles place = PlaceOfRank(number, group.of_experts ? experts_.tensor_ranks() : 1);
      place.tensor_rank += static_cast<std::int64_t>(rank);
      const std::vector<std::vector<RecordId>>& files = records_[static_cast<std::size_t>(place.tensor_rank)];
      const std::int64_t stored = StoredElements(group, state.name, partition);
      buffer.parts.push_back({files[static_cast<std::size_t>(place.partition)][record], 0, stored});
      AddPadding(group, state.dtype, partition, buffer.parts.back());
    }
    return target_.storage.Add(std::move(buffer));
  }

  // Between the parameters and behind the last one.
  void AddPadding(const FlatGroupToWrite& group, DType dtype, std::int64_t partition, const BufferPart& part) {
    const std::int64_t begin = partition * group.partition_elements;
    const std::int64_t end = begin + part.elements;
    auto add = [&](std::int64_t from, std::int64_t to) {
      AddZeros(target_, part.record, dtype, std::max(from, begin) - begin, std::min(to, end) - begin);
    };
    for (const PlacedParameter& parameter : group.parameters) {
      const std::int64_t behind = parameter.offset + parameter.elements;
      if (parameter.padding > 0) add(behind, behind + parameter.padding);
    }
    add(group.elements, group.partition_elements * std::ssize(group.ranks));
  }

  TargetFiles& target_;
  // By rank and partition, in the order of groups and their states.
  std::vector<std::vector<std::vector<RecordId>>> records_;
};

}  // namespace

FlatOptimizerFiles::FlatOptimizerFiles(const TargetRequest& request, const WriteOptions& options,
                                       const Carried& carried, const std::vector<RankToWrite>& ranks,
                                       const ExpertsToWrite& experts)
    : request_(request), options_(options), carried_(carried), ranks_(ranks), experts_(experts) {}

llvm::Error FlatOptimizerFiles::Compose(unsigned threads) {
  const FileComposer composer(request_, options_, carried_, ranks_, experts_);
  const auto partitions = static_cast<std::size_t>(options_.dp);
  composed_.resize(ranks_.size() * partitions);
  return ForEachInParallel(composed_.size(), {threads, nullptr}, [&](unsigned, std::uint64_t number) -> llvm::Error {
    composed_[number] = composer.Compose(number / partitions, static_cast<std::int64_t>(number % partitions));
    return CheckInterrupted();
  });
}

void FlatOptimizerFiles::AddTo(const std::string& folder, TargetFiles& target) {
  FilesAdder adder({request_, options_, carried_, ranks_, experts_}, target);
  adder.AddFiles(folder, composed_);
  adder.AddShards();
}

}  // namespace ucp::deepspeed
