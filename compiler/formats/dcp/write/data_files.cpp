#include "compiler/formats/dcp/write/data_files.h"

namespace ucp::dcp {

DataFile::DataFile(TargetFiles& target, const std::string& path)
    : target_(target), file_(target.storage.Add(StoredFile{path, 0, ""})) {}

PlacedArchive DataFile::Append(const SharedArchive& archive) {
  constexpr std::uint64_t kAlignment = 64;
  const std::uint64_t offset = (end_ + kAlignment - 1) / kAlignment * kAlignment;
  if (offset > end_) {
    target_.placements.push_back({file_, end_, target_.AddBlob(std::string(offset - end_, '\0'))});
  }
  end_ = offset + archive.bytes;
  target_.storage.files[file_.index()].bytes = end_;
  return {offset, AddArchive(target_, file_, offset, archive)};
}

}  // namespace ucp::dcp
