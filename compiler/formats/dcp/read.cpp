// `.metadata` says which entries there are, and where.
#include "compiler/formats/dcp/read.h"

#include <fmt/format.h>

#include <set>

#include "compiler/formats/dcp/entries/describe_entries.h"
#include "compiler/formats/dcp/entries/megatron_fsdp.h"
#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/items.h"
#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/dcp/torch_checkpointing/read.h"
#include "compiler/formats/dcp/write/style.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

class Folder {
 public:
  Folder(ReadableFileSystem& files, const std::string& folder, unsigned threads)
      : files_(files),
        folder_(folder),
        items_(files, folder, checkpoint_.inventory.storage, checkpoint_.training, threads) {}

  llvm::Expected<Checkpoint> Describe(const std::vector<std::string>& parts, const RankPreference& preference) {
    checkpoint_.inventory.root = folder_;
    checkpoint_.inventory.preference = preference;
    checkpoint_.training.tag = TagOf(folder_);
    for (const std::string& part : parts) UCP_RETURN_IF_ERROR(ReadPart(part));
    UCP_RETURN_IF_ERROR(CheckKeys());
    UCP_RETURN_IF_ERROR(TakeMegatronFsdp());
    state_.name = folder_;
    state_.origin = kMetadataFile;
    state_.entries = entries_;
    state_.has_two_folders = parts.size() > 1;
    UCP_RETURN_IF_ERROR(items_.Read(paths_, WantedItems()));
    UCP_RETURN_IF_ERROR(ReadLightning());
    UCP_RETURN_IF_ERROR(DescribeEntries(state_, items_, checkpoint_));
    return std::move(checkpoint_);
  }

 private:
  llvm::Error ReadPart(const std::string& part) {
    const std::string folder = part.empty() ? folder_ : JoinPath(folder_, part.substr(0, part.size() - 1));
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, MetadataFilesOf(files_, folder));
    const bool is_one = names.size() == 1 && names.front() == kMetadataFile;
    std::vector<Metadata> of_files;
    for (const std::string& name : names) {
      const std::string path = JoinPath(folder, name);
      UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files_, path, kMostMetadataBytes));
      auto of_file = ReadMetadata(bytes, is_one ? MetadataOf::kAllRanks : MetadataOf::kOneRank);
      if (!of_file) return AddContext(of_file.takeError(), fmt::format("`{}`", path));
      of_files.push_back(*std::move(of_file));
      checkpoint_.inventory.storage.Add(StoredFile{part + name, bytes.size(), ContentHash(bytes)});
    }
    llvm::Expected<Metadata> read = is_one ? std::move(of_files.front()) : JoinRanks(std::move(of_files));
    if (!read) return AddContext(read.takeError(), fmt::format("`{}`", folder));
    state_.has_paths = parts_read_ == 0 ? read->has_paths : state_.has_paths && read->has_paths;
    const auto first_file = static_cast<std::uint32_t>(paths_.size());
    for (const std::string& file : read->files) paths_.push_back(part + file);
    for (Entry& entry : read->entries) {
      for (Chunk& chunk : entry.chunks) chunk.place.file += first_file;
      entries_.push_back(std::move(entry));
    }
    ++parts_read_;
    return llvm::Error::success();
  }

  llvm::Error TakeMegatronFsdp() {
    if (!IsOfMegatronFsdp(entries_)) return llvm::Error::success();
    checkpoint_.inventory.remarks.emplace_back("Megatron-FSDP saved it as `fsdp_dtensor`");
    if (llvm::Error error = RenameMegatronFsdp(entries_))
      return AddContext(std::move(error), fmt::format("`{}`", folder_));
    return CheckKeys();
  }

  llvm::Error CheckKeys() const {
    std::set<std::string_view> keys;
    for (const Entry& entry : entries_) {
      if (keys.insert(entry.key).second) continue;
      return Fail(ErrorCode::kBadData, "`{}`: two of its entries are `{}`", folder_, entry.key);
    }
    return llvm::Error::success();
  }

  std::vector<WantedItem> WantedItems() {
    std::vector<WantedItem> wanted;
    for (Entry& entry : entries_) {
      for (Chunk& chunk : entry.chunks) wanted.push_back({&entry, &chunk, chunk.place.file});
    }
    return wanted;
  }

  // Lightning has everything but tensors in a file of its own, and reads it from there.
  llvm::Error ReadLightning() {
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(JoinPath(folder_, kLightningFile)));
    if (kind != PathKind::kFile) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(const pytorch::ValuePtr root, items_.KeepFile(kLightningFile));
    const auto* entries = pytorch::Entries(*root);
    if (entries == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` does not hold a dict", JoinPath(folder_, kLightningFile));
    }
    state_.other_file = kLightningFile;
    state_.more_entries = *entries;
    return llvm::Error::success();
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  Items items_;
  std::size_t parts_read_ = 0;
  std::vector<std::string> paths_;  // Of the data files.
  std::vector<Entry> entries_;      // Final before anything points to one.
  StateDict state_;
};

}  // namespace

llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference, unsigned threads) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> parts, FoldersOf(files, folder));
  if (parts.empty()) return DescribeTorchCheckpointing(files, folder, preference, TagOf(folder));
  return Folder(files, folder, threads).Describe(parts, preference);
}

}  // namespace ucp::dcp
