#include "compiler/formats/dcp/dcp.h"

#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/read.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class DcpFormat : public Format {
 public:
  std::string_view name() const override { return "dcp"; }
  bool IsWritten() const override { return false; }
  StrategyRules strategy_rules() const override { return {}; }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    return dcp::IsCheckpointFolder(files, folder);
  }
  bool IsModelAlone() const override { return false; }

  bool MayHaveFile(std::string_view /*path*/) const override { return false; }  // It is not written.
  std::vector<std::string_view> file_endings() const override { return {}; }
  // The places of headers stand in `.metadata`: no file can be described alone.
  bool HasHeader(std::string_view /*path*/) const override { return false; }
  llvm::Error ReadHeader(const ReadableFile& /*file*/) const override { return llvm::Error::success(); }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned threads) const override {
    return dcp::DescribeFolder(files, folder, preference, threads);
  }

  llvm::Expected<TargetFiles> LayOut(const TargetRequest& /*request*/) const override {
    return Fail(ErrorCode::kUnsupported, "checkpoints of torch.distributed.checkpoint are read and not written");
  }
};

}  // namespace

std::unique_ptr<const Format> MakeDcpFormat() { return std::make_unique<DcpFormat>(); }

}  // namespace ucp
