#include "compiler/formats/megatron/megatron.h"

#include <fmt/format.h>

#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/megatron/read.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class MegatronFormat : public Format {
 public:
  std::string_view name() const override { return "megatron"; }
  StrategyRules strategy_rules() const override { return {}; }
  bool IsTarget() const override { return false; }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    return dcp::IsOfMegatron(files, folder);
  }
  std::string_view latest_file() const override { return "latest_checkpointed_iteration.txt"; }
  // "1000", or "release".
  std::string FolderOfLatest(std::string_view text) const override {
    const auto number = ParseCount(text, 0, std::int64_t{1} << 62);
    return number ? fmt::format("iter_{:07}", *number) : std::string(text);
  }

  bool MayHaveFile(std::string_view path) const override {
    return path == dcp::kMegatronCommonFile || path == dcp::kMegatronDescription || dcp::IsFileName(path);
  }
  std::vector<std::string_view> file_endings() const override {
    return {dcp::kDataSuffix, dcp::kMetadataFile, dcp::kMegatronCommonFile, dcp::kMegatronDescription};
  }
  // The places of headers stand in `.metadata`: no file can be described alone.
  bool HasHeader(std::string_view /*path*/) const override { return false; }
  llvm::Error ReadHeader(const ReadableFile& /*file*/) const override { return llvm::Error::success(); }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned threads) const override {
    return megatron::DescribeFolder(files, folder, preference, threads);
  }
  llvm::Expected<TargetFiles> LayOut(const TargetRequest& /*request*/) const override {
    return Fail(ErrorCode::kUnsupported, "checkpoints of Megatron Core are read and not written");
  }
};

}  // namespace

std::unique_ptr<const Format> MakeMegatronFormat() { return std::make_unique<MegatronFormat>(); }

}  // namespace ucp
