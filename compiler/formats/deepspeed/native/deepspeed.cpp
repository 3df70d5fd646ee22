#include "compiler/formats/deepspeed/native/deepspeed.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/read/describe.h"
#include "compiler/formats/deepspeed/native/synthetic_state.h"
#include "compiler/formats/deepspeed/native/write/fused_experts.h"
#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/open_settings.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/deepspeed/native/write/readers.h"
#include "compiler/formats/deepspeed/native/write/write.h"
#include "compiler/formats/pytorch/archive/archive_header.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class DeepSpeedFormat : public Format {
 public:
  std::string_view name() const override { return "deepspeed"; }
  StrategyRules strategy_rules() const override {
    return {
        .has_degrees = true,
        .target_axes = deepspeed::TargetAxes(),
        .settings = {TakesNumber("zero", 0, 3), TakesWord("dtype", {"fp32", "fp16", "bf16"}),
                     TakesWord("optimizer", {"bf16", "zero", "fused", "unfused"}),
                     TakesWord("round_robin", {"true", "false"}), TakesWord("data_before_experts", {"true", "false"}),
                     TakesWord("alignment", {"true", "false"}), TakesWord("elastic", {"true", "false"}),
                     TakesNumber("sub_group_size", 1, deepspeed::kMostElements),
                     TakesWord("exclude_frozen", {"true", "false"}), TakesWord("partition", {"parameters", "uniform"}),
                     TakesWord("expert_tp", {"true", "false"}), TakesLayout()},
        .help =
            "deepspeed:KEY=VALUE,… for native files: pp, tp, dp, sp, ep, zero, dtype, optimizer, round_robin, "
            "alignment, elastic, data_before_experts, expert_tp, sub_group_size, exclude_frozen, partition, "
            "layout=NAME (another layout of the spec's model)"};
  }

  // A universal folder also holds model-states files; its folder `zero` tells them apart.
  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
    bool has_files = false;
    for (const DirectoryEntry& entry : entries) {
      if (entry.is_directory && entry.name == "zero") return false;
      has_files = has_files || (!entry.is_directory && deepspeed::IsCheckpointFileName(entry.name));
    }
    return has_files;
  }
  std::string_view latest_file() const override { return "latest"; }

  bool MayHaveFile(std::string_view path) const override {
    return path.find('/') == std::string_view::npos && path.ends_with("_states.pt");
  }
  std::vector<std::string_view> file_endings() const override { return {".pt"}; }
  bool HasHeader(std::string_view path) const override { return path.ends_with(".pt"); }
  llvm::Error ReadHeader(const ReadableFile& file) const override { return pytorch::ReadArchiveHeader(file); }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned threads) const override {
    return deepspeed::DescribeCheckpoint(files, folder, preference, threads);
  }

  llvm::Expected<std::shared_ptr<const FormatState>> MakeState(const Strategy& strategy,
                                                               std::span<const LogicalTensor> tensors,
                                                               const TiedLayers& tied) const override {
    return deepspeed::MakeSyntheticState(strategy, tensors, tied);
  }

  CompanionKind TakesCompanions(const Strategy& /*strategy*/, const TrainingState& /*training*/) const override {
    return CompanionKind::kOfModelAndLoop;
  }
  bool TakesJobConfig() const override { return true; }
  llvm::Error CheckJobConfig(const JobConfig& job) const override {
    return deepspeed::ParseEngineConfig(job).takeError();
  }
  std::vector<std::string> OpenSettings(const Strategy& strategy, const TrainingState& training,
                                        std::span<const LogicalTensor> tensors) const override {
    return deepspeed::OpenSettings(strategy, training, tensors);
  }
  bool CarriesLooseStates() const override { return true; }
  bool DealsLayers(const Strategy& strategy) const override { return strategy.options.contains("partition"); }
  llvm::Expected<std::optional<Degrees>> TargetDegrees(const Strategy& strategy,
                                                       const TrainingState& training) const override {
    UCP_ASSIGN_OR_RETURN(Degrees degrees, deepspeed::DegreesToWrite(strategy));
    UCP_RETURN_IF_ERROR(deepspeed::CheckDegreesOfAutoEp(training, degrees));
    return degrees;
  }
  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    return deepspeed::LayOutCheckpoint(request);
  }
  llvm::Expected<FileReaders> Readers(const TargetRequest& request, const TargetFiles& target) const override {
    return deepspeed::ReadersOf(request, target);
  }
};

}  // namespace

std::unique_ptr<const Format> MakeDeepSpeedFormat() { return std::make_unique<DeepSpeedFormat>(); }

FormatStateReader DeepSpeedStateReader() { return &deepspeed::ReadState; }

}  // namespace ucp
