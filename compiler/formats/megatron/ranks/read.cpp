// Each rank's file has its part of the model and of the optimizer, and all that the training script says. That is the
// same in every file, but for the states of random generators.
#include "compiler/formats/megatron/ranks/read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/dcp/entries/engine_entries.h"
#include "compiler/formats/facts.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/megatron/ranks/folders.h"
#include "compiler/formats/megatron/ranks/join.h"
#include "compiler/formats/megatron/ranks/old_models.h"
#include "compiler/formats/megatron/ranks/optimizer.h"
#include "compiler/formats/megatron/ranks/parts.h"
#include "compiler/formats/megatron/ranks/same_job.h"
#include "compiler/formats/megatron/ranks/shards.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::ValuePtr;

constexpr std::string_view kRerunState = "rerun_state_machine";
constexpr const char* kTensorRanks = "tensor_model_parallel_size";  // Before there were stages, `model_parallel_size`.
constexpr double kVersion = 3;                                      // In the order of which rows are read.
constexpr std::string_view kVersionKey = "checkpoint_version";
constexpr std::int64_t kMostRanksOfJob = std::int64_t{1} << 20;
constexpr std::int64_t kMostExperts = std::int64_t{1} << 14;

class Ranks {
 public:
  Ranks(ReadableFileSystem& files, const std::string& folder)
      : files_(files),
        folder_(folder),
        job_(folder, inventory().facts),
        archives_(files, folder, inventory().storage, training()) {}

  llvm::Expected<Checkpoint> Describe(const RankPreference& preference, unsigned threads) {
    inventory().format = "megatron";
    inventory().root = folder_;
    inventory().preference = preference;
    inventory().cuts = BoxesOfTensors();
    training().tag = NameOfFolder(folder_);
    training().ranks.emplace_back();
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> found, RankFoldersIn(files_, folder_));
    UCP_RETURN_IF_ERROR(CheckIsThere(RankFolder{found.front()}.file()));
    UCP_RETURN_IF_ERROR(ReadArguments(RankFolder{found.front()}.file()));
    if (llvm::Error error = CheckIsRead()) return AddContext(std::move(error), fmt::format("`{}`", folder_));
    UCP_ASSIGN_OR_RETURN(const std::vector<RankFolder> folders, RankFoldersOf(folder_, found, counts_));
    std::vector<std::string> ahead;
    for (const RankFolder& rank : folders) {
      UCP_RETURN_IF_ERROR(CheckIsThere(rank.file()));
      ahead.push_back(rank.file());
    }
    archives_.ReadAhead(ahead, threads > 1 ? threads - 1 : 0);
    for (const RankFolder& rank : folders) UCP_RETURN_IF_ERROR(ReadRank(rank));
    UCP_RETURN_IF_ERROR(job_.CheckProcesses());
    auto model = JoinRanks(ranks_, arguments_);
    if (!model) return AddContext(model.takeError(), fmt::format("`{}`", folder_));
    if (llvm::Error error = OrderRows(version_, arguments_, *model)) {
      return AddContext(std::move(error), fmt::format("`{}`", folder_));
    }
    if (llvm::Error error = CheckArguments(*model)) return AddContext(std::move(error), fmt::format("`{}`", folder_));
    TakeOptimizer(*model);
    const Training training_of{training().absent_optimizer.empty(), arguments_.IsSet("use_distributed_optimizer")};
    for (const WholeTensor& tensor : model->tensors) AddShards(tensor, training_of, archives_, inventory());
    training().ranks.front().module_extras = std::move(model->extras);
    dcp::TakeEngineEntries(training());
    RaiseVersion();
    Remark(*model);
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }
  TrainingState& training() { return checkpoint_.training; }
  RankState& client() { return training().ranks.front(); }

  llvm::Error CheckIsThere(const std::string& file) {
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(JoinPath(folder_, file)));
    if (kind == PathKind::kFile) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "`{}` is missing, which has the rank's part of the model; copy the whole folder",
                JoinPath(folder_, file));
  }

  llvm::Error ReadArguments(const std::string& file) {
    UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> readable, files_.OpenForReading(JoinPath(folder_, file)));
    UCP_ASSIGN_OR_RETURN(const pytorch::Archive archive, pytorch::ReadArchive(*readable));
    first_file_ = file;
    const ValuePtr args = pytorch::Find(*archive.root(), "args");
    if (!args) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` has no `args`, the arguments of Megatron's training script, which say how the model is cut",
                  JoinPath(folder_, file));
    }
    AddFacts("args", *args, file, inventory().facts);
    return llvm::Error::success();
  }

  llvm::Error CheckIsRead() {
    for (const auto& [name, degree] :
         {std::pair("pipeline_model_parallel_size", &counts_.stages), std::pair(kTensorRanks, &counts_.tensor_ranks),
          std::pair("expert_model_parallel_size", &counts_.expert_ranks)}) {
      const bool is_old = std::string_view(name) == kTensorRanks && !arguments_.Number(name);
      *degree = arguments_.Number(is_old ? "model_parallel_size" : name).value_or(1);
      if (*degree >= 1 && *degree <= kMostRanksOfJob) continue;
      return Fail(ErrorCode::kBadData, "`args.{}` is {} in `{}`", name, *degree, first_file_);
    }
    const auto experts = arguments_.Number("num_experts");
    if (!experts) return llvm::Error::success();
    if (*experts < 1 || *experts > kMostExperts || *experts % counts_.expert_ranks != 0) {
      return Fail(ErrorCode::kBadData,
                  "`args.num_experts` is {} in `{}`, and 1 to {} are read that the {} ranks of "
                  "`args.expert_model_parallel_size` can share evenly",
                  *experts, first_file_, kMostExperts, counts_.expert_ranks);
    }
    const std::string modules = arguments_.Text("transformer_impl");
    if (modules != "local" && modules != "transformer_engine") {
      return Fail(
          ErrorCode::kUnsupported,
          "`args.transformer_impl` is `{}` in `{}`, and layers of experts are read whose norms have the names of "
          "`local` or of `transformer_engine`; load the checkpoint with Megatron-LM, and save it as `torch_dist`",
          modules, first_file_);
    }
    const auto cut = arguments_.Number("expert_tensor_parallel_size").value_or(counts_.tensor_ranks);
    if (cut == counts_.tensor_ranks) return llvm::Error::success();
    return Fail(
        ErrorCode::kUnsupported,
        "`args.expert_tensor_parallel_size` is {} and `args.tensor_model_parallel_size` {} in `{}`, and folders "
        "of ranks are read with the same of both; load the checkpoint with Megatron-LM, and save it as "
        "`torch_dist`",
        cut, counts_.tensor_ranks, first_file_);
  }

  llvm::Error ReadRank(const RankFolder& folder) {
    UCP_ASSIGN_OR_RETURN(const SourceArchive file, archives_.Open(folder.file()));
    const auto* entries = pytorch::Entries(file.root());
    if (entries == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` does not hold a dict", file.readable->path());
    }
    RankOfModel& rank = ranks_.emplace_back(RankOfModel{folder, {}});
    UCP_RETURN_IF_ERROR(job_.Take(file));
    std::set<std::string_view> keys;
    for (const pytorch::Entry& entry : *entries) {
      const std::string_view key = pytorch::AsText(*entry.key).value_or("");
      keys.insert(key);
      has_rerun_state_ = has_rerun_state_ || key == kRerunState;
      has_old_seeds_ = has_old_seeds_ || IsOldSeed(key);
      if (key == "optimizer" || key == kRerunState || IsModel(key) || IsOldSeed(key)) continue;
      UCP_RETURN_IF_ERROR(TakeEntry(file, folder, entry));
    }
    UCP_RETURN_IF_ERROR(CheckLacksNone(file, keys));
    UCP_RETURN_IF_ERROR(ReadModel(file, rank));
    return ReadOptimizer(file, rank);
  }

  // All ranks say the same, but for the states of their random generators.
  llvm::Error TakeEntry(const SourceArchive& file, const RankFolder& folder, const pytorch::Entry& entry) {
    const std::string key(pytorch::AsText(*entry.key).value_or(""));
    const std::string what = fmt::format("`{}`", key);
    const bool is_of_rank = key == "rng_state";
    const bool is_first = ranks_.size() == 1;
    if (key == "args" && !is_first) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(ValuePtr value, archives_.Keep(file, entry.value, what));
    if (is_of_rank) {
      const std::string own = fmt::format("rng_state/shard_{}.{}_{}.{}", folder.stage, folder.tensor_rank,
                                          counts_.stages, counts_.tensor_ranks);
      if (folder.expert_rank == 0) client().client.push_back({pytorch::MakeText(own), std::move(value)});
      return llvm::Error::success();
    }
    if (is_first) {
      client().client_origin = {file.path, ""};
      client().module_origin = {file.path, "model"};
      of_all_ranks_.push_back(key);
      client().client.push_back({entry.key, std::move(value)});
      return llvm::Error::success();
    }
    return CheckAlike(inventory(), what, {first_file_, {}}, FindEntry(client().client, key), {file.path, {}}, value,
                      pytorch::ListLengths::kMustAgree);
  }

  // `keys`: the file's.
  llvm::Error CheckLacksNone(const SourceArchive& file, const std::set<std::string_view>& keys) {
    for (const std::string& key : of_all_ranks_) {
      if (keys.contains(key)) continue;
      UCP_RETURN_IF_ERROR(CheckAlike(inventory(), fmt::format("`{}`", key), {first_file_, {}},
                                     FindEntry(client().client, key), {file.path, {}}, nullptr,
                                     pytorch::ListLengths::kMustAgree));
    }
    return llvm::Error::success();
  }

  llvm::Error ReadModel(const SourceArchive& file, RankOfModel& rank) {
    UCP_ASSIGN_OR_RETURN(rank.parts, ReadParts(archives_, file));
    UCP_ASSIGN_OR_RETURN(version_, VersionOf(file, std::ranges::any_of(rank.parts, &ModelPart::is_old)));
    const auto said = arguments_.Number("virtual_pipeline_model_parallel_size").value_or(1);
    if (said >= 1 && said == std::ssize(rank.parts)) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`args.virtual_pipeline_model_parallel_size` is {} in `{}`, and `{}` holds {} parts of the model", said,
                first_file_, file.readable->path(), rank.parts.size());
  }

  llvm::Error ReadOptimizer(const SourceArchive& file, RankOfModel& rank) {
    const ValuePtr optimizer = pytorch::Find(file.root(), "optimizer");
    if (!optimizer) {
      Leave(fmt::format("`{}` holds no optimizer", file.path));
      return llvm::Error::success();
    }
    has_optimizer_ = true;
    const std::vector<ValuePtr> optimizers = OptimizersIn(optimizer);
    if (optimizers.size() != 1 && optimizers.size() != 2) {
      Leave(fmt::format("`{}` holds {} optimizers, and one or two are read", file.path, optimizers.size()));
      return llvm::Error::success();
    }
    if (ranks_.size() == 1) {
      const bool has_masters = pytorch::Find(*optimizers.front(), "optimizer") != nullptr;  // Not in float32.
      const bool is_one = optimizers.size() == 1;
      const char* of_one = has_masters ? "optimizer.optimizer.param_groups" : "optimizer.param_groups";
      training().groups_origin = {file.path, is_one ? of_one : "optimizer"};
      training().optimizer_origin = {file.path, "optimizer"};
      if (const ValuePtr scaler = pytorch::Find(*optimizers.front(), "grad_scaler"); scaler && !scaler->is_none()) {
        UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives_.Keep(file, scaler, "`grad_scaler`"));
        training().optimizer.push_back({pytorch::MakeText("grad_scaler"), std::move(kept)});
      }
    }
    const OptimizerContext context{archives_, inventory().storage, training(), arguments_, counts_.stages - 1};
    if (!arguments_.IsSet("use_distributed_optimizer")) {
      UCP_ASSIGN_OR_RETURN(RankOptimizer read, ReadPlainOptimizers(context, file, optimizers, rank));
      return TakeGroups(file, std::move(read));
    }
    const std::string path = rank.folder.states_file();
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(JoinPath(folder_, path)));
    if (kind == PathKind::kMissing) {
      Leave(fmt::format("`{}` is missing, in which the states of the distributed optimizer are", path));
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(const SourceArchive states, archives_.Open(path));
    UCP_ASSIGN_OR_RETURN(RankOptimizer read, ReadDistributedOptimizers(context, file, optimizers, states, rank));
    return TakeGroups(file, std::move(read));
  }

  // Ranks may have the same groups in another order.
  llvm::Error TakeGroups(const SourceArchive& file, RankOptimizer read) {
    if (!read.unread.empty()) {
      Leave(std::move(read.unread));
      return llvm::Error::success();
    }
    if (!read.without_step.empty()) without_step_ = std::move(read.without_step);
    for (std::size_t g = 0; g < read.groups.size(); ++g) {
      OptimizerGroup& group = read.groups[g];
      const auto is_same = [&](const OptimizerGroup& other) { return HaveOneKey(group, other); };
      auto known = g < groups_.size() && is_same(groups_[g]) ? groups_.begin() + static_cast<std::ptrdiff_t>(g)
                                                             : std::ranges::find_if(groups_, is_same);
      if (known == groups_.end() || ranks_.size() == 1) {
        groups_.push_back(std::move(group));
        continue;
      }
      const std::string what = fmt::format("group {} of the optimizer", known - groups_.begin());
      UCP_RETURN_IF_ERROR(CheckAlike(inventory(), what, {first_file_, {}}, known->hyper_parameters, {file.path, {}},
                                     group.hyper_parameters, pytorch::ListLengths::kMustAgree));
      if (!known->step) known->step = group.step;  // A rank may have no parameters of a group to count steps of.
      if (!group.step) continue;
      UCP_RETURN_IF_ERROR(CheckSameStep(training(), known->step, first_file_, group.step, file.path));
    }
    return llvm::Error::success();
  }

  // Why the optimizer is not read; the first reason counts.
  void Leave(std::string unread) {
    if (unread_.empty()) unread_ = std::move(unread);
  }

  llvm::Error CheckArguments(const WholeModel& model) {
    Keys keys;
    for (const WholeTensor& tensor : model.tensors) keys.tensors.push_back(&tensor.entry);
    return arguments_.Check(keys);
  }

  void TakeOptimizer(const WholeModel& model) {
    Common common;
    for (const OptimizerGroup& group : groups_) common.groups.push_back(group.hyper_parameters);
    std::vector<Parameter> parameters;
    for (const auto& [entry, boxes] : model.tensors) {
      if (!IsBuffer(entry.key)) parameters.push_back({entry.key, entry.shape.size()});
    }
    Groups dealt = DealIntoGroups(common, parameters);
    if (unread_.empty() && groups_.empty()) unread_ = fmt::format("`{}` has no groups of the optimizer", first_file_);
    Leave(std::move(dealt.unread));
    if (std::ranges::any_of(groups_, [](const OptimizerGroup& group) { return group.step != nullptr; })) {
      Leave(without_step_);
    }
    if (unread_.empty()) {
      for (std::size_t g = 0; g < groups_.size(); ++g) dealt.groups[g].step = groups_[g].step;
      training().groups = std::move(dealt.groups);
      return;
    }
    training().absent_optimizer = fmt::format("`{}`: {}", folder_, unread_);
    training().has_unread_optimizer = has_optimizer_;
    if (has_optimizer_) inventory().remarks.push_back(unread_ + ". Its weights are read alone");
  }

  // The tensors are those of the newest version.
  void RaiseVersion() {
    if (version_ >= kVersion) return;
    std::erase_if(client().client,
                  [](const pytorch::Entry& entry) { return pytorch::AsText(*entry.key) == kVersionKey; });
    client().client.push_back({pytorch::MakeText(std::string(kVersionKey)), pytorch::MakeDouble(kVersion)});
    inventory().remarks.push_back(
        fmt::format("`{}` is {}, and the tensors are those of {}: rows of queries, keys and "
                    "values are put in its order",
                    kVersionKey, version_, kVersion));
  }

  void Remark(const WholeModel& model) {
    const std::string degrees = arguments_.Degrees();
    std::vector<std::string>& remarks = inventory().remarks;
    remarks.insert(remarks.begin(),
                   fmt::format("Megatron saved it as `torch`{}{}", degrees.empty() ? "" : " at ", degrees));
    if (has_rerun_state_) {
      remarks.push_back(fmt::format("`{}` belongs to the ranks that saved, and is left out", kRerunState));
    }
    if (has_old_seeds_) remarks.push_back("The states of random generators are entries of their own, and are left out");
    if (counts_.expert_ranks > 1) {
      remarks.push_back("Of the states of random generators, those of expert-parallel rank 0 are read");
    }
    if (model.lacks_extras) remarks.push_back("`_extra_state` of grouped experts is left out");
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  const Arguments arguments_{checkpoint_.inventory.facts};
  SameJob job_;
  SourceArchives archives_;
  std::string first_file_;
  RankCounts counts_;
  std::vector<std::string> of_all_ranks_;  // Entries of the first file that the others have as well.
  std::vector<RankOfModel> ranks_;
  std::vector<OptimizerGroup> groups_;  // Of all ranks, without their parameters.
  std::string unread_;                  // Why the optimizer is not read; empty if it is.
  std::string without_step_;            // Why not if it counts steps.
  bool has_optimizer_ = false;
  bool has_rerun_state_ = false;
  bool has_old_seeds_ = false;
  double version_ = 0;
};

}  // namespace

llvm::Expected<Checkpoint> DescribeRanks(ReadableFileSystem& files, const std::string& folder,
                                         const RankPreference& preference, unsigned threads) {
  return Ranks(files, folder).Describe(preference, threads);
}

}  // namespace ucp::megatron
