// The story of a description: look at the names of the files and refuse what is not served; read what the model-states
// files say about the cut; add what the model computes with; add, rank after rank, the partitions of the optimizer;
// and put together what is needed to resume.
#include "runtime/formats/deepspeed/describe.h"

#include <re2/re2.h>

#include <algorithm>
#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/formats/deepspeed/degrees.h"
#include "runtime/formats/deepspeed/flat_groups.h"
#include "runtime/formats/deepspeed/module_tensors.h"
#include "runtime/formats/deepspeed/optimizer_groups.h"
#include "runtime/formats/deepspeed/write_groups.h"
#include "runtime/formats/embedded_layout.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {
namespace {

class Description {
 public:
  Description(FileSystem& files, const std::string& folder)
      : files_(files), folder_(folder), archives_(files, folder, inventory().storage, checkpoint_.training) {}

  llvm::Expected<Checkpoint> Run() {
    inventory().format = "deepspeed";
    inventory().root = folder_;
    checkpoint_.training.tag = std::filesystem::path(folder_).lexically_normal().filename().string();
    UCP_RETURN_IF_ERROR(ReadModelFiles());
    UCP_RETURN_IF_ERROR(
        ReadLayerFiles(archives_, names_, degrees_, states_, inventory().remarks, checkpoint_.training.pipeline));
    UCP_RETURN_IF_ERROR(CheckModuleTensors(names_, folder_, degrees_, states_));
    UCP_RETURN_IF_ERROR(AddModuleShards(archives_, degrees_, states_, inventory()));
    for (std::int64_t mp = 0; mp < degrees_.mp(); ++mp) UCP_RETURN_IF_ERROR(AddOptimizerShards(mp));
    RemarkOnAddresses();
    RemarkOnStrangers();
    AddCheckpointFacts();
    UCP_RETURN_IF_ERROR(FillTrainingState());
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }

  llvm::Error ReadModelFiles() {
    UCP_ASSIGN_OR_RETURN(names_, ListCheckpointFiles(files_, folder_));
    UCP_RETURN_IF_ERROR(CheckServed(names_, folder_));
    UCP_RETURN_IF_ERROR(CheckModelFiles(names_, folder_));
    for (const auto& [mp, name] : names_.model_states) {
      UCP_ASSIGN_OR_RETURN(ModelStates states, ReadModelStates(archives_, name, ModelStatesOf::kNativeCheckpoint));
      states_.push_back(std::move(states));
    }
    UCP_ASSIGN_OR_RETURN(degrees_, FindDegrees(names_, folder_, states_, inventory().remarks));
    UCP_RETURN_IF_ERROR(CheckLayerFiles(names_, folder_, degrees_.tp));
    UCP_ASSIGN_OR_RETURN(partitions_, CountPartitions(names_, folder_, degrees_.mp()));
    inventory().mesh.axes = {{"pp", degrees_.pp}, {"dp", partitions_}, {"tp", degrees_.tp}};
    return llvm::Error::success();
  }

  // All partitions of one model-parallel rank. They are held together only here; what remains is the storage.
  llvm::Error AddOptimizerShards(std::int64_t mp) {
    std::vector<OptimizerStates> partitions;
    for (std::int64_t p = 0; p < partitions_; ++p) {
      UCP_ASSIGN_OR_RETURN(OptimizerStates states, ReadOptimizerStates(archives_, names_.optimizer_states.at({mp, p})));
      partitions.push_back(std::move(states));
      UCP_RETURN_IF_ERROR(CheckPartition(states_[static_cast<std::size_t>(mp)], partitions.front(), partitions.back()));
    }
    RankGroups rank{partitions.front().path, {}};
    for (std::size_t g = 0; g < partitions.front().groups.size(); ++g) {
      UCP_ASSIGN_OR_RETURN(OptimizerGroup group, AddGroupShards(mp, g, partitions));
      rank.groups.push_back(std::move(group));
    }
    rank_groups_.push_back(std::move(rank));
    if (mp == 0) checkpoint_.training.optimizer = std::move(partitions.front().others);
    return llvm::Error::success();
  }

  // "zero_pp_rank_3_mp_rank_00_optim_states.pt" from the name of another partition's file.
  static std::string NameOfPartition(const std::string& path, std::int64_t partition) {
    constexpr std::string_view kMark = "pp_rank_";
    std::size_t begin = path.find(kMark);
    if (begin == std::string::npos) return fmt::format("the file of partition {}", partition);
    begin += kMark.size();
    std::size_t end = path.find('_', begin);
    return path.substr(0, begin) + std::to_string(partition) + (end == std::string::npos ? "" : path.substr(end));
  }

  // What one file must have in common with the model-states file of its rank and with the first partition.
  llvm::Error CheckPartition(const ModelStates& model, const OptimizerStates& first, const OptimizerStates& states) {
    if (states.groups.size() != model.param_shapes.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} optimizer groups and `param_shapes` in `{}` has {}", folder_,
                  states.path, states.groups.size(), model.path, model.param_shapes.size());
    }
    for (std::size_t g = 0; g < states.groups.size(); ++g) {
      const GroupPartition& group = states.groups[g];
      const std::int64_t count = group.partition_count.value_or(partitions_);
      if (count != partitions_) {
        return Fail(ErrorCode::kBadData,
                    "`{}`: group {} in `{}` is cut over {} partitions, and there are files of {}; {}", folder_, g,
                    states.path, count, partitions_,
                    count > partitions_
                        ? fmt::format("`{}` is missing", NameOfPartition(states.path, partitions_))
                        : std::string("the others are stale, or the group holds experts, which are not read yet"));
      }
      UCP_RETURN_IF_ERROR(CompareWithFirst(g, first, states));
    }
    return llvm::Error::success();
  }

  llvm::Error CompareWithFirst(std::size_t g, const OptimizerStates& first, const OptimizerStates& states) {
    const GroupPartition& a = first.groups[g];
    const GroupPartition& b = states.groups[g];
    auto disagree = [&](std::string_view what, const std::string& of_a, const std::string& of_b) {
      return Fail(ErrorCode::kBadData, "`{}`: {} of group {} is {} in `{}` and {} in `{}`", folder_, what, g, of_a,
                  first.path, of_b, states.path);
    };
    if (llvm::Error error = CheckSameStep(checkpoint_.training, a.step, first.path, b.step, states.path)) {
      return AddContext(std::move(error), fmt::format("`{}`", folder_));
    }
    std::string hyper_a = pytorch::Print(*a.hyper_parameters);
    std::string hyper_b = pytorch::Print(*b.hyper_parameters);
    if (hyper_a != hyper_b) return disagree("`param_groups`", hyper_a, hyper_b);
    auto signature = [](const GroupPartition& group) {
      std::string text = fmt::format("{} {}", kMasterState, Name(group.master.dtype));
      for (const auto& [state, place] : group.states) text += fmt::format(", {} {}", state, Name(place.dtype));
      return text;
    };
    if (signature(a) != signature(b)) return disagree("the list of states", signature(a), signature(b));
    if (a.alignment_paddings != b.alignment_paddings) {
      return disagree("`param_alignment_paddings`", fmt::format("{}", fmt::join(a.alignment_paddings, ", ")),
                      fmt::format("{}", fmt::join(b.alignment_paddings, ", ")));
    }
    return llvm::Error::success();
  }

  // One buffer for each state, its parts in the files of the partitions; every parameter begins somewhere in it.
  llvm::Expected<OptimizerGroup> AddGroupShards(std::int64_t mp, std::size_t g,
                                                const std::vector<OptimizerStates>& partitions) {
    const ModelStates& model = states_[static_cast<std::size_t>(mp)];
    const GroupPartition& first = partitions.front().groups[g];
    auto flat = LayOutGroup(model.param_shapes[g], first.alignment_paddings);
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", folder_, model.path));
    auto length = PartitionElements(*flat, g, partitions);
    if (!length) return AddContext(length.takeError(), fmt::format("`{}`", folder_));
    CountWrongAddresses(*flat, *length, g, partitions);
    BufferSet set = {{kMasterState, AddBuffer(*length, partitions, [&](const OptimizerStates& partition) {
                        return &partition.groups[g].master;
                      })}};
    for (const auto& [state, place] : first.states) {
      set.push_back({state, AddBuffer(*length, partitions, [&](const OptimizerStates& partition) {
                       return &partition.groups[g].states.at(state);
                     })});
    }
    BufferSetId states = inventory().storage.Add(std::move(set));
    OptimizerGroup group{first.hyper_parameters, first.step, {}};
    for (const FlatParameter& parameter : flat->parameters) {
      Shard shard;
      shard.tensor = parameter.name;
      shard.kind = TensorKind::kParameter;
      shard.coordinate.at = {{"pp", mp / degrees_.tp}, {"tp", mp % degrees_.tp}};
      shard.shape = parameter.shape;
      shard.base = parameter.offset;
      shard.states = states;
      inventory().storage.shards.push_back(std::move(shard));
      group.parameters.push_back(parameter.name);
    }
    is_dealt_ = IsDealtRoundRobin(partitions.front());
    if (is_dealt_) group.parameters = UndealRoundRobin(group.parameters, partitions_);
    return group;
  }

  // The files have the flattened order; the optimizer was given another one.
  bool IsDealtRoundRobin(const OptimizerStates& states) const {
    pytorch::ValuePtr config = FindEntry(states_.front().engine, "ds_config");
    pytorch::ValuePtr zero = config ? pytorch::Find(*config, "zero_optimization") : nullptr;
    pytorch::ValuePtr dealt = zero ? pytorch::Find(*zero, "round_robin_gradients") : nullptr;
    return !states.is_bf16_optimizer && dealt && pytorch::AsBool(*dealt).value_or(false);
  }

  template <typename PlaceOf>
  BufferId AddBuffer(std::int64_t length, const std::vector<OptimizerStates>& partitions, PlaceOf place_of) {
    Buffer buffer;
    buffer.dtype = place_of(partitions.front())->dtype;
    buffer.part_elements = length;
    for (const OptimizerStates& partition : partitions) {
      const TensorPlace* place = place_of(partition);
      buffer.parts.push_back({place->record, place->offset, place->elements});
    }
    return inventory().storage.Add(std::move(buffer));
  }

  void CountWrongAddresses(const FlatGroup& flat, std::int64_t length, std::size_t g,
                           const std::vector<OptimizerStates>& partitions) {
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      AddressMismatch found = CompareAddresses(flat, length, static_cast<std::int64_t>(p), partitions[p].groups[g]);
      if (found.count > 0 && wrong_addresses_.count == 0) {
        wrong_addresses_.example = fmt::format("`{}` in `{}`", found.example, partitions[p].path);
      }
      wrong_addresses_.count += found.count;
    }
  }

  void RemarkOnAddresses() {
    if (wrong_addresses_.count == 0) return;
    if (!is_dealt_) {
      checkpoint_.training.order_doubt = fmt::format(
          "`param_slice_mappings` contradicts `param_shapes`, first for {}, and `ds_config` does not say that "
          "round_robin_gradients is on",
          wrong_addresses_.example);
    }
    inventory().remarks.push_back(fmt::format(
        "`param_slice_mappings` contradicts `param_shapes` {} times (first for {}) and is not believed; DeepSpeed "
        "records wrong addresses with round_robin_gradients",
        wrong_addresses_.count, wrong_addresses_.example));
  }

  void RemarkOnStrangers() {
    for (const std::string& name : names_.folders) {
      inventory().remarks.push_back(fmt::format("the folder `{}` inside the checkpoint is not a part of it", name));
    }
    for (const std::string& name : names_.strangers) {
      inventory().remarks.push_back(fmt::format("`{}` is not a file of this format and is not read", name));
    }
    pytorch::ValuePtr recorded = FindEntry(states_.front().engine, "dp_world_size");
    auto number = recorded ? pytorch::AsInteger(*recorded) : std::nullopt;
    if (number && *number != partitions_) {
      inventory().remarks.push_back(
          fmt::format("`dp_world_size` is {}, and the optimizer is cut over {} partitions", *number, partitions_));
    }
  }

  void AddCheckpointFacts() {
    const ModelStates& first = states_.front();
    AddFacts(first, inventory().facts);
    pytorch::ValuePtr info = FindEntry(first.client, "universal_checkpoint_info");
    if (!info) return;
    AddFirstStageCounts(*info);
    auto embedded = ReadEmbeddedLayout(*info, first.path);
    if (embedded) {
      inventory().embedded = std::move(*embedded);
    } else {
      inventory().embedded_refused = llvm::toString(embedded.takeError());
    }
  }

  // The metadata's patterns are Python regular expressions, matched from the start of a name and not to its end.
  void AddFirstStageCounts(const pytorch::Value& info) {
    pytorch::ValuePtr list = pytorch::Find(info, "pipeline_replicated_parameter_patterns");
    const auto* items = list ? pytorch::Items(*list) : nullptr;
    if (items == nullptr) return;
    std::set<std::string> names;
    for (const Shard& shard : inventory().storage.shards) names.insert(shard.tensor);
    std::set<std::string> matched;
    for (const pytorch::ValuePtr& item : *items) {
      auto text = pytorch::AsText(*item);
      if (!text) continue;
      RE2::Options options(RE2::Quiet);
      options.set_max_mem(std::int64_t{1} << 20);
      const RE2 pattern(re2::StringPiece(text->data(), text->size()), options);
      if (!pattern.ok()) {
        inventory().remarks.push_back(fmt::format(
            "the pattern `{}` of `pipeline_replicated_parameter_patterns` is not understood ({}) and not used", *text,
            pattern.error()));
        continue;
      }
      for (const std::string& name : names) {
        if (pattern.Match(name, 0, name.size(), RE2::ANCHOR_START, nullptr, 0)) matched.insert(name);
      }
    }
    inventory().first_stage_counts.assign(matched.begin(), matched.end());
  }

  llvm::Error FillTrainingState() {
    TrainingState& training = checkpoint_.training;
    auto groups = MergeGroups(training, rank_groups_);
    if (!groups) return AddContext(groups.takeError(), fmt::format("`{}`", folder_));
    training.groups = std::move(*groups);
    training.aliases = inventory().aliases;
    training.engine = states_.front().engine;
    for (ModelStates& states : states_) {
      training.ranks.push_back({std::move(states.client), std::move(states.module.extras)});
    }
    return llvm::Error::success();
  }

  FileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  SourceArchives archives_;
  CheckpointFiles names_;
  std::vector<ModelStates> states_;  // By model-parallel rank.
  Degrees degrees_;
  std::int64_t partitions_ = 0;
  std::vector<RankGroups> rank_groups_;
  AddressMismatch wrong_addresses_;
  bool is_dealt_ = false;  // round_robin_gradients.
};

}  // namespace

llvm::Expected<Checkpoint> DescribeCheckpoint(FileSystem& files, const std::string& folder) {
  return Description(files, folder).Run();
}

}  // namespace ucp::deepspeed
