#include "compiler/formats/megatron/megatron.h"

#include <fmt/format.h>

#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/write/cut.h"
#include "compiler/formats/dcp/write/options.h"
#include "compiler/formats/megatron/ranks/folders.h"
#include "compiler/formats/megatron/ranks/read.h"
#include "compiler/formats/megatron/read.h"
#include "compiler/formats/megatron/write/common_file.h"
#include "compiler/formats/megatron/write/equal_parts.h"
#include "compiler/formats/megatron/write/stacks.h"
#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/formats/megatron/write/write.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class MegatronFormat : public Format {
 public:
  std::string_view name() const override { return "megatron"; }
  StrategyRules strategy_rules() const override { return megatron::TargetRules(); }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    UCP_ASSIGN_OR_RETURN(const bool is_one, dcp::IsOfMegatron(files, folder));
    return is_one ? true : megatron::IsOfRanks(files, folder);
  }
  std::string_view latest_file() const override { return "latest_checkpointed_iteration.txt"; }
  std::string_view first_tag() const override { return megatron::kRelease; }
  // "1000", or "release".
  std::string FolderOfLatest(std::string_view text) const override {
    const auto number = ParseCount(text, 0, std::int64_t{1} << 62);
    return number ? fmt::format("iter_{:07}", *number) : std::string(text);
  }

  bool MayHaveFile(std::string_view path) const override {
    return path == dcp::kMegatronCommonFile || path == dcp::kMegatronDescription || dcp::IsFileName(path) ||
           megatron::IsRankFile(path);
  }
  std::vector<std::string_view> file_endings() const override {
    return {dcp::kDataSuffix,          dcp::kMetadataFile,  dcp::kMegatronCommonFile,
            dcp::kMegatronDescription, megatron::kRankFile, megatron::kRankStatesFile};
  }
  // The places of headers stand in `.metadata`: no file can be described alone. Those of ranks are archives of
  // torch.save, which other formats know by their names.
  bool HasHeader(std::string_view /*path*/) const override { return false; }
  llvm::Error ReadHeader(const ReadableFile& /*file*/) const override { return llvm::Error::success(); }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned threads) const override {
    UCP_ASSIGN_OR_RETURN(const bool is_of_ranks, AreRanksAlone(files, folder));
    if (is_of_ranks) return megatron::DescribeRanks(files, folder, preference, threads);
    return megatron::DescribeFolder(files, folder, preference, threads, megatron::States::kAsStored);
  }
  llvm::Expected<Checkpoint> DescribeRepaired(ReadableFileSystem& files, const std::string& folder,
                                              const RankPreference& preference, unsigned threads) const override {
    UCP_ASSIGN_OR_RETURN(const bool is_of_ranks, AreRanksAlone(files, folder));
    if (is_of_ranks) return Format::DescribeRepaired(files, folder, preference, threads);
    return megatron::DescribeFolder(files, folder, preference, threads, megatron::States::kShifted);
  }

  bool HoldsWeightsAlone(const Strategy& strategy) const override {
    const auto states = strategy.options.find("states");
    return states != strategy.options.end() && states->second == "weights";
  }
  bool TakesWeightsAlone(const Strategy& /*strategy*/) const override { return true; }
  llvm::Error CutIntoBoxes(const Strategy& strategy, const TrainingState& training,
                           std::span<const LogicalTensor> tensors, Layout& layout) const override {
    UCP_RETURN_IF_ERROR(megatron::CheckPlaces(tensors));
    const megatron::TargetOptions options = megatron::ReadTargetOptions(strategy, training);
    dcp::WriteOptions cut;
    cut.files = options.files;
    UCP_ASSIGN_OR_RETURN(cut.equal_parts, megatron::EqualPartsOf(options, training, tensors));
    return dcp::CutIntoBoxes(cut, nullptr, nullptr, tensors, layout);
  }
  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    return megatron::LayOutFolder(request);
  }

 private:
  // As Megatron Core decides: ranks' files beside a `torch_dist` folder do not count.
  static llvm::Expected<bool> AreRanksAlone(ReadableFileSystem& files, const std::string& folder) {
    UCP_ASSIGN_OR_RETURN(const bool is_one, dcp::IsOfMegatron(files, folder));
    return is_one ? false : megatron::IsOfRanks(files, folder);
  }
};

}  // namespace

std::unique_ptr<const Format> MakeMegatronFormat() { return std::make_unique<MegatronFormat>(); }

}  // namespace ucp
