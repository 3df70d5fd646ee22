#include "compiler/formats/dcp/dcp.h"

#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/packed_items.h"
#include "compiler/formats/dcp/read.h"
#include "compiler/formats/dcp/write/cut.h"
#include "compiler/formats/dcp/write/options.h"
#include "compiler/formats/dcp/write/style.h"
#include "compiler/formats/dcp/write/write.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class DcpFormat : public Format {
 public:
  std::string_view name() const override { return "dcp"; }
  StrategyRules strategy_rules() const override { return dcp::WriteRules(); }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    return dcp::IsCheckpointFolder(files, folder);
  }
  bool IsModelAlone() const override { return false; }

  bool MayHaveFile(std::string_view path) const override { return dcp::IsFileName(path); }
  std::vector<std::string_view> file_endings() const override { return {dcp::kDataSuffix, dcp::kMetadataFile}; }
  // The places of headers stand in `.metadata`: no file can be described alone.
  bool HasHeader(std::string_view /*path*/) const override { return false; }
  llvm::Error ReadHeader(const ReadableFile& /*file*/) const override { return llvm::Error::success(); }

  llvm::Expected<std::vector<PackedArchive>> PackedArchives(ReadableFileSystem& files,
                                                            const std::string& folder) const override {
    return dcp::PackedItems(files, folder);
  }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned threads) const override {
    return dcp::DescribeFolder(files, folder, preference, threads);
  }

  bool HoldsWeightsAlone(const Strategy& strategy) const override {
    const auto states = strategy.options.find("states");
    return states != strategy.options.end() && states->second == "weights";
  }
  bool TakesWeightsAlone(const Strategy& /*strategy*/) const override { return true; }
  bool CarriesLooseStates() const override { return true; }
  CompanionKind TakesCompanions(const Strategy& strategy, const TrainingState& training) const override {
    const bool is_accelerates = !dcp::StyleOfTarget(strategy, training).model_folder().empty();
    return is_accelerates && !HoldsWeightsAlone(strategy) ? CompanionKind::kOfModelAndLoop : CompanionKind::kNone;
  }
  llvm::Expected<std::optional<Degrees>> TargetDegrees(const Strategy& strategy,
                                                       const TrainingState& /*training*/) const override {
    if (!strategy.options.contains("tp")) return std::nullopt;
    return ParseDegrees(strategy);
  }
  llvm::Error CutIntoBoxes(const Strategy& strategy, const TrainingState& training,
                           std::span<const LogicalTensor> tensors, Layout& layout) const override {
    UCP_ASSIGN_OR_RETURN(const dcp::WriteOptions options, dcp::ReadOptions(strategy));
    return dcp::CutIntoBoxes(options, dcp::PartOf(training), dcp::MachineFilesOf(training), tensors, layout);
  }
  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override { return dcp::LayOutFolder(request); }
  llvm::Expected<FileReaders> Readers(const TargetRequest& request, const TargetFiles& target) const override {
    const dcp::MachineFiles* machines = dcp::MachineFilesOf(request.training);
    return machines == nullptr ? Format::Readers(request, target) : dcp::ReadersOf(*machines, target);
  }
};

}  // namespace

std::unique_ptr<const Format> MakeDcpFormat() { return std::make_unique<DcpFormat>(); }

}  // namespace ucp
