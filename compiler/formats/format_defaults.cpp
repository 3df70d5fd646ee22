// The behaviour of a format that does not say otherwise.
#include "compiler/formats/format.h"

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::optional<std::string>> Format::MeantByFile(ReadableFileSystem&, const std::string&) const {
  return std::nullopt;
}

llvm::Expected<Checkpoint> Format::DescribeRepaired(ReadableFileSystem&, const std::string& folder,
                                                    const RankPreference&, unsigned) const {
  return Fail(ErrorCode::kUsage,
              "`{}` is a folder of the format {}, of which no fault is known that can be repaired; convert it without "
              "a repair",
              folder, name());
}

llvm::Expected<std::shared_ptr<const FormatState>> Format::MakeState(const Strategy&, std::span<const LogicalTensor>,
                                                                     const TiedLayers&) const {
  return nullptr;
}

llvm::Expected<std::optional<Degrees>> Format::TargetDegrees(const Strategy&, const TrainingState&) const {
  return std::nullopt;
}

llvm::Error Format::CutIntoBoxes(const Strategy&, const TrainingState&, std::span<const LogicalTensor>, Layout&) const {
  return llvm::Error::success();
}

llvm::Expected<FileReaders> Format::Readers(const TargetRequest&, const TargetFiles& target) const {
  return ReadByAll(target.storage.files.size());
}

}  // namespace ucp
