#include "compiler/formats/deepspeed/universal/universal.h"

#include "compiler/formats/deepspeed/universal/loader.h"
#include "compiler/formats/deepspeed/universal/read.h"
#include "compiler/formats/deepspeed/universal/write.h"
#include "compiler/formats/pytorch/archive/archive_header.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class UniversalFormat : public Format {
 public:
  std::string_view name() const override { return "universal"; }
  StrategyRules strategy_rules() const override { return universal::LoaderRules(); }

  llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const override {
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(folder, "zero")));
    return kind == PathKind::kDirectory;
  }
  std::string_view latest_file() const override { return "latest_universal"; }

  bool MayHaveFile(std::string_view path) const override {
    if (path.starts_with("zero/")) return path.ends_with(".pt");
    return path.find('/') == std::string_view::npos && path.ends_with("_states.pt");
  }
  std::vector<std::string_view> file_endings() const override { return {".pt"}; }
  bool HasHeader(std::string_view path) const override { return path.ends_with(".pt"); }
  llvm::Error ReadHeader(const ReadableFile& file) const override { return pytorch::ReadArchiveHeader(file); }
  std::string_view folder_of_tensors() const override { return "zero"; }

  llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                      const RankPreference& preference, unsigned) const override {
    return universal::DescribeFolder(files, folder, preference);
  }

  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    return universal::LayOutFolder(request.tensors, request.training, request.strategy);
  }
};

}  // namespace

std::unique_ptr<const Format> MakeUniversalFormat() { return std::make_unique<UniversalFormat>(); }

}  // namespace ucp
