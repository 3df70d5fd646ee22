// Stages 1 and 2 and BF16_Optimizer. `param_shapes` says what is in a group and in which order; each state becomes one
// buffer, with a part in the file of each partition, and every parameter begins somewhere in it.
#include "compiler/formats/deepspeed/common/expert_groups.h"
#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/muon_groups.h"
#include "compiler/formats/deepspeed/common/round_robin.h"
#include "compiler/formats/deepspeed/native/read/optimizer/loose_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/muon_momentum.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"
#include "compiler/formats/deepspeed/native/read/optimizer/unread_keys.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// "zero_pp_rank_3_mp_rank_00_optim_states.pt" from the name of another partition's file.
std::string NameOfPartition(const std::string& path, std::int64_t partition) {
  constexpr std::string_view kMark = "pp_rank_";
  std::size_t begin = path.find(kMark);
  if (begin == std::string::npos) return fmt::format("the file of partition {}", partition);
  begin += kMark.size();
  std::size_t end = path.find('_', begin);
  return path.substr(0, begin) + std::to_string(partition) + (end == std::string::npos ? "" : path.substr(end));
}

class FlatOptimizer {
 public:
  explicit FlatOptimizer(const OptimizerContext& context) : context_(context) {}

  // All partitions of the model-parallel ranks from `first` on that share experts out together: one, unless whole
  // experts are also shared out by tensor-parallel ranks. They are held together only here; what remains is the
  // storage.
  llvm::Expected<std::vector<RankGroups>> AddRanks(std::int64_t first) {
    Together ranks;
    for (std::int64_t mp = first; mp < first + context_.tensor_ranks(); ++mp) {
      UCP_ASSIGN_OR_RETURN(ranks.emplace_back(), ReadRank(mp));
    }
    std::vector<RankGroups> all;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      believed_ = BelievedOf(context_, {ranks[r].begin(), ranks[r].end()});
      OptimizerStates& believed = ranks[r][believed_];
      RankGroups rank{.speaker = believed, .groups_path = "base_optimizer_state.param_groups"};
      for (std::size_t g = 0; g < believed.groups.size(); ++g) {
        const bool is_added = r > 0 && believed.groups[g].is_of_experts;  // With those of the first rank.
        if (is_added) {
          rank.groups.push_back(
              {believed.groups[g].hyper_parameters, believed.groups[g].step, all.front().groups[g].parameters});
          continue;
        }
        UCP_ASSIGN_OR_RETURN(OptimizerGroup group, AddGroup(first + static_cast<std::int64_t>(r), g, ranks));
        rank.groups.push_back(std::move(group));
      }
      rank.others = std::move(believed.others);
      all.push_back(std::move(rank));
    }
    return all;
  }

  void RemarkOnAddresses() {
    if (wrong_addresses_.count == 0) return;
    if (!is_dealt_) {
      context_.checkpoint.training.order_doubt = fmt::format(
          "`param_slice_mappings` contradicts `param_shapes`, first for {}, and `ds_config` does not say that "
          "round_robin_gradients is on",
          wrong_addresses_.example);
    }
    context_.checkpoint.inventory.remarks.push_back(fmt::format(
        "`param_slice_mappings` contradicts `param_shapes` {} times (first for {}) and is not believed; DeepSpeed "
        "records wrong addresses with round_robin_gradients",
        wrong_addresses_.count, wrong_addresses_.example));
  }

 private:
  using Together = std::vector<std::vector<OptimizerStates>>;  // By model-parallel rank and partition.

  llvm::Expected<std::vector<OptimizerStates>> ReadRank(std::int64_t mp) const {
    std::vector<OptimizerStates> partitions;
    for (std::int64_t p = 0; p < context_.partitions; ++p) {
      UCP_ASSIGN_OR_RETURN(OptimizerStates states,
                           ReadOptimizerStates(context_.archives, context_.files.optimizer_states.at({mp, p})));
      NoteUnread(states.path, states.unread_keys, context_.checkpoint.inventory.remarks);
      states.rank = context_.degrees.RankOf(mp, p);
      UCP_RETURN_IF_ERROR(context_.fused_experts.CheckOptimizerFile(states.folding, states.path, mp, p));
      UCP_RETURN_IF_ERROR(CheckGroups(mp, context_.states[static_cast<std::size_t>(mp)], states));
      partitions.push_back(std::move(states));
    }
    const OptimizerStates& believed = partitions[BelievedOf(context_, {partitions.begin(), partitions.end()})];
    for (const OptimizerStates& states : partitions) UCP_RETURN_IF_ERROR(CheckAgrees(believed, states));
    return partitions;
  }

  // Values that one file must have in common with the model-states file of its rank.
  llvm::Error CheckGroups(std::int64_t mp, const ModelStates& model, const OptimizerStates& states) const {
    const std::string& folder = context_.folder;
    if (states.groups.size() != model.param_shapes.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} optimizer groups and `param_shapes` in `{}` has {}", folder,
                  states.path, states.groups.size(), model.path, model.param_shapes.size());
    }
    for (std::size_t g = 0; g < states.groups.size(); ++g) {
      UCP_RETURN_IF_ERROR(CheckKindOfGroup(model, g, states));
      UCP_ASSIGN_OR_RETURN(const std::int64_t ep, DegreeOf(mp, g, states));
      const std::int64_t sharing = states.groups[g].is_of_experts ? context_.tensor_ranks() : 1;
      const std::int64_t expected = context_.partitions * sharing / ep;
      const std::int64_t count = states.groups[g].partition_count.value_or(expected);
      if (count != expected && sharing > 1) {
        return Fail(ErrorCode::kBadData,
                    "`{}`: group {} in `{}` is cut over {} partitions, and of {} tensor-parallel ranks with {} "
                    "partitions that share whole experts out {} have the same ones; that experts are whole is seen by "
                    "one file of each expert, and others may be missing",
                    folder, g, states.path, count, sharing, context_.partitions, expected);
      }
      if (count != expected) {
        return Fail(ErrorCode::kBadData,
                    "`{}`: group {} in `{}` is cut over {} partitions, and there are files of {}; {}", folder, g,
                    states.path, count, expected,
                    count > expected ? fmt::format("`{}` is missing", NameOfPartition(states.path, context_.partitions))
                                     : std::string("the others are stale"));
      }
    }
    return llvm::Error::success();
  }

  // Values on which all partitions of a rank must agree, but for the steps.
  llvm::Error CheckAgrees(const OptimizerStates& a, const OptimizerStates& b) const {
    UCP_RETURN_IF_ERROR(CheckSameText(context_.folder, "the kind of optimizer", a.kind, a.path, b.kind, b.path));
    Inventory& inventory = context_.checkpoint.inventory;
    UCP_RETURN_IF_ERROR(CheckAlike(inventory, "the optimizer", a, pytorch::MakeDict(a.others), b,
                                   pytorch::MakeDict(b.others), pytorch::ListLengths::kMustAgree));
    for (std::size_t g = 0; g < a.groups.size(); ++g) {
      UCP_RETURN_IF_ERROR(CheckAlike(inventory, fmt::format("`param_groups` of group {}", g), a,
                                     a.groups[g].hyper_parameters, b, b.groups[g].hyper_parameters,
                                     pytorch::ListLengths::kMustAgree));
      if (a.groups[g].alignment_paddings == b.groups[g].alignment_paddings) continue;
      auto text = [&](const OptimizerStates& states) {
        return fmt::format("{}", fmt::join(states.groups[g].alignment_paddings, ", "));
      };
      UCP_RETURN_IF_ERROR(CheckSameText(context_.folder, fmt::format("`param_alignment_paddings` of group {}", g),
                                        text(a), a.path, text(b), b.path));
    }
    return llvm::Error::success();
  }

  // Over how many ranks the experts of a group are spread; 1 if it has none.
  llvm::Expected<std::int64_t> DegreeOf(std::int64_t mp, std::size_t g, const OptimizerStates& states) const {
    if (!states.groups[g].is_of_experts) return 1;
    if (context_.fused_experts.any()) return context_.fused_experts.ep();
    const ModelStates& model = context_.states[static_cast<std::size_t>(mp)];
    auto degree = context_.experts.DegreeOf(mp, model.param_shapes[g]);
    if (!degree) return AddContext(degree.takeError(), fmt::format("`{}`: `{}`", context_.folder, model.path));
    return degree;
  }

  // A group of experts is as many vectors as there are expert ranks, with the same parameters by other names.
  llvm::Expected<OptimizerGroup> AddGroup(std::int64_t mp, std::size_t g, Together& ranks) {
    std::vector<OptimizerStates>& own = ranks[static_cast<std::size_t>(mp % context_.tensor_ranks())];
    const GroupPartition& first = own[believed_].groups[g];
    OptimizerGroup group{first.hyper_parameters, first.step, {}};
    if (!first.is_of_experts) {
      std::vector<OptimizerStates*> all;
      for (OptimizerStates& partition : own) all.push_back(&partition);
      UCP_ASSIGN_OR_RETURN(group.parameters, AddVector(mp, g, 0, all));
      return group;
    }
    UCP_RETURN_IF_ERROR(CheckSameExperts(mp, g, ranks));
    UCP_ASSIGN_OR_RETURN(const std::int64_t ep, DegreeOf(mp, g, own.front()));
    const bool data_first = IsDataFirst(context_.states.front());
    const std::int64_t tensor_ranks = context_.tensor_ranks();
    std::vector<std::vector<std::string>> names;
    for (std::int64_t rank = 0; rank < ep; ++rank) {
      std::vector<OptimizerStates*> sharing;
      for (std::int64_t i : RanksWithExperts(rank, ep, context_.partitions * tensor_ranks, data_first)) {
        const RankInFiles place = PlaceOfRank(i, tensor_ranks);
        sharing.push_back(
            &ranks[static_cast<std::size_t>(place.tensor_rank)][static_cast<std::size_t>(place.partition)]);
      }
      UCP_ASSIGN_OR_RETURN(names.emplace_back(), AddVector(mp, g, rank, sharing));
    }
    if (context_.fused_experts.any()) names.resize(1);  // The others are the same tensors.
    group.parameters = JoinExpertRanks(names);
    return group;
  }

  // Each tensor-parallel rank lists experts of its own, and all by the same names.
  llvm::Error CheckSameExperts(std::int64_t mp, std::size_t g, const Together& ranks) const {
    auto text = [&](const ModelStates& states) {
      std::vector<std::string> listed;
      if (g < states.param_shapes.size()) {
        for (const NamedShape& parameter : context_.fused_experts.ShapesAt(0, states.param_shapes[g])) {
          listed.push_back(fmt::format("{} [{}]", parameter.name, fmt::join(parameter.shape, ", ")));
        }
      }
      return fmt::format("{}", fmt::join(listed, ", "));
    };
    const ModelStates& a = context_.states[static_cast<std::size_t>(mp)];
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const ModelStates& b = context_.states[static_cast<std::size_t>(mp) + r];
      UCP_RETURN_IF_ERROR(CheckSameText(context_.folder, fmt::format("group {} of `param_shapes`", g), text(a), a.path,
                                        text(b), b.path));
    }
    return llvm::Error::success();
  }

  llvm::Error CheckKindOfGroup(const ModelStates& model, std::size_t g, const OptimizerStates& states) const {
    const bool is_of_experts = states.groups[g].is_of_experts;
    for (const NamedShape& parameter : model.param_shapes[g]) {
      if (context_.IsExpert(parameter.name) == is_of_experts) continue;
      return Fail(ErrorCode::kBadData, "`{}`: `{}` is {}, and group {} in `{}`, where `{}` lists it, is {}",
                  context_.folder, parameter.name, is_of_experts ? "no expert's" : "an expert's", g, states.path,
                  model.path, is_of_experts ? "of experts" : "not");
    }
    return llvm::Error::success();
  }

  // Returns the names in the order in which the optimizer was given them.
  llvm::Expected<std::vector<std::string>> AddVector(std::int64_t mp, std::size_t g, std::int64_t expert_rank,
                                                     const std::vector<OptimizerStates*>& partitions) {
    const ModelStates& model = context_.states[static_cast<std::size_t>(mp)];
    auto flat = LayOutGroup(context_.fused_experts.ShapesAt(expert_rank, model.param_shapes[g]),
                            partitions.front()->groups[g].alignment_paddings);
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", context_.folder, model.path));
    const std::vector<const OptimizerStates*> read(partitions.begin(), partitions.end());
    auto length = PartitionElements(*flat, g, read);
    if (!length) return AddContext(length.takeError(), fmt::format("`{}`", context_.folder));
    CountWrongAddresses(*flat, *length, g, read);
    std::vector<PartitionPart> parts;
    const std::string owner = fmt::format("group {}", g);
    std::vector<GroupPartition*> held_by;
    for (OptimizerStates* partition : partitions) held_by.push_back(&partition->groups[g]);
    CutMuonMomentum(*flat, *length, held_by);
    const std::vector<WholeMatrix> matrices = TakeMuonMomentum(*flat, *length, IsOnCpu(), held_by);
    for (OptimizerStates* partition : partitions) {
      GroupPartition& held = partition->groups[g];
      SetAsideOthers({held.is_lean ? held.master.elements : *length}, partition->path, owner, held);
      parts.push_back({&held, partition});
    }
    UCP_RETURN_IF_ERROR(CheckParts(context_, owner, parts));
    const BufferSetId states = AddBuffers(context_.storage(), *length, parts);
    std::vector<std::string> names;
    std::vector<SteppedPiece> stepped;
    for (const FlatParameter& parameter : flat->parameters) {
      stepped.push_back({context_.storage().shards.size(), {}, {}, 0, parameter.elements, parameter.offset});
      const std::string name = context_.experts.NameInModel(mp, parameter.name, expert_rank);
      Shard shard = LocalShard(context_.degrees, mp, TensorKind::kParameter, {name, parameter.shape});
      if (context_.IsExpert(name)) shard.coordinate = context_.PlaceOfExperts(mp, expert_rank);
      shard.base = parameter.offset;
      shard.states = states;
      context_.storage().shards.push_back(std::move(shard));
      names.push_back(name);
    }
    AddMomentum(matrices, context_.storage().shards.size() - flat->parameters.size());
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      const GroupPartition& held = partitions[p]->groups[g];
      if (held.others.empty()) continue;
      AddLooseStates(context_, held, PartOfVector(stepped, *length, static_cast<std::int64_t>(p)),
                     held.is_lean ? "DeepSpeed cuts every state at its end when it saves an elastic checkpoint" : "");
    }
    is_dealt_ = IsDealtRoundRobin(*partitions.front());
    if (is_dealt_) names = UndealRoundRobin(names, std::ssize(partitions));
    return names;
  }

  // The shards of the parameters begin with this one. Copies of a matrix's momentum are compared.
  void AddMomentum(const std::vector<WholeMatrix>& matrices, std::size_t first_shard) {
    for (const WholeMatrix& matrix : matrices) {
      Shard shard = context_.storage().shards[first_shard + matrix.parameter];
      shard.base = matrix.momentum.offset;
      shard.states = context_.archives.BuffersOf(matrix.momentum, kMomentumState);
      context_.storage().shards.push_back(std::move(shard));
    }
  }

  // Of `zero_optimization` in the job's configuration; null if it is not there.
  pytorch::ValuePtr ZeroSetting(std::string_view key) const {
    pytorch::ValuePtr config = FindEntry(context_.states.front().engine, "ds_config");
    pytorch::ValuePtr zero = config ? pytorch::Find(*config, "zero_optimization") : nullptr;
    return zero ? pytorch::Find(*zero, key) : nullptr;
  }

  bool IsOnCpu() const {
    pytorch::ValuePtr offload = ZeroSetting("offload_optimizer");
    pytorch::ValuePtr device = offload ? pytorch::Find(*offload, "device") : nullptr;
    return device && pytorch::AsText(*device).value_or("none") != "none";
  }

  // The files have the flattened order; the optimizer was given another one.
  bool IsDealtRoundRobin(const OptimizerStates& states) const {
    pytorch::ValuePtr dealt = ZeroSetting("round_robin_gradients");
    return !states.is_bf16_optimizer && dealt && pytorch::AsBool(*dealt).value_or(false);
  }

  void CountWrongAddresses(const FlatGroup& flat, std::int64_t length, std::size_t g,
                           const std::vector<const OptimizerStates*>& partitions) {
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      AddressMismatch found = CompareAddresses(flat, length, static_cast<std::int64_t>(p), partitions[p]->groups[g]);
      if (found.count > 0 && wrong_addresses_.count == 0) {
        wrong_addresses_.example = fmt::format("`{}` in `{}`", found.example, partitions[p]->path);
      }
      wrong_addresses_.count += found.count;
    }
  }

  const OptimizerContext& context_;
  std::size_t believed_ = 0;  // Of the partitions of the rank that is read.
  AddressMismatch wrong_addresses_;
  bool is_dealt_ = false;  // round_robin_gradients.
};

}  // namespace

llvm::Expected<std::vector<RankGroups>> AddFlatOptimizer(const OptimizerContext& context) {
  FlatOptimizer optimizer(context);
  std::vector<RankGroups> ranks;
  for (std::int64_t mp = 0; mp < context.degrees.mp(); mp += context.tensor_ranks()) {
    UCP_ASSIGN_OR_RETURN(std::vector<RankGroups> together, optimizer.AddRanks(mp));
    for (RankGroups& rank : together) ranks.push_back(std::move(rank));
  }
  optimizer.RemarkOnAddresses();
  return ranks;
}

}  // namespace ucp::deepspeed
