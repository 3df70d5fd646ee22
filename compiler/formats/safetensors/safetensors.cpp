#include "compiler/formats/safetensors/safetensors.h"

#include "compiler/formats/safetensors/file_names.h"
#include "compiler/formats/safetensors/header.h"
#include "compiler/formats/safetensors/read.h"
#include "compiler/formats/safetensors/write.h"
#include "compiler/formats/safetensors/write_options.h"

namespace ucp {
namespace {

class SafetensorsFormat : public Format {
 public:
  explicit SafetensorsFormat(std::vector<FormatStateReader> readers) : readers_(std::move(readers)) {}

  std::string_view name() const override { return "safetensors"; }
  StrategyRules strategy_rules() const override { return safetensors::WriteRules(); }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    return safetensors::IsModel(files, folder);
  }
  llvm::Expected<std::optional<std::string>> MeantByFile(ReadableFileSystem& files,
                                                         const std::string& path) const override {
    return safetensors::ModelMeantBy(files, path);
  }

  bool MayHaveFile(std::string_view path) const override { return safetensors::IsWeightsName(path); }
  std::vector<std::string_view> file_endings() const override { return {".safetensors", ".index.json", ".pt"}; }
  bool HasHeader(std::string_view path) const override { return path.ends_with(safetensors::kSuffix); }
  llvm::Error ReadHeader(const ReadableFile& file) const override { return safetensors::ReadHeaderBytes(file); }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder, const RankPreference&,
                                      unsigned) const override {
    return safetensors::DescribeModel(files, folder, readers_);
  }

  bool HoldsWeightsAlone(const Strategy& strategy) const override {
    return !safetensors::ReadWriteOptions(strategy).all_states;
  }
  bool TakesPlainNames(const Strategy& strategy) const override {
    const safetensors::WriteOptions options = safetensors::ReadWriteOptions(strategy);
    return !options.all_states && !options.names_in_memory;
  }
  CompanionKind TakesCompanions(const Strategy& /*strategy*/, const TrainingState& /*training*/) const override {
    return CompanionKind::kOfModel;
  }
  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    return safetensors::LayOutFolder(request);
  }

 private:
  const std::vector<FormatStateReader> readers_;
};

}  // namespace

std::unique_ptr<const Format> MakeSafetensorsFormat(std::vector<FormatStateReader> readers) {
  return std::make_unique<SafetensorsFormat>(std::move(readers));
}

}  // namespace ucp
