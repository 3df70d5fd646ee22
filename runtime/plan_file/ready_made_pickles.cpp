#include "runtime/plan_file/ready_made_pickles.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/objects/known_objects.h"
#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/ready_made_archive.h"
#include "runtime/plan_file/metadata_pickle.h"

namespace ucp {
namespace {

class PickleCheck {
 public:
  PickleCheck(const Plan& plan, std::span<const std::string> keep)
      : plan_(plan), known_(keep), blobs_(ReadyMadeBytes(plan)) {
    for (const Buffer& buffer : plan.target.buffers) {
      for (const BufferPart& part : buffer.parts) {
        const Record& record = plan.target.record(part.record);
        dtypes_.try_emplace({record.file, record.begin}, buffer.dtype);
      }
    }
  }

  llvm::Error Run() {
    for (FileId file : ArchivesOf(plan_)) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      if (llvm::Error error = Check(file)) return InContext(std::move(error), file);
    }
    for (std::size_t f = 0; f < plan_.target.files.size(); ++f) {
      if (!IsMetadata(plan_.target.files[f].path)) continue;
      const auto pickle = FindBytes(blobs_[f], 0, plan_.target.files[f].bytes);
      llvm::Error error = pickle ? CheckMetadataPickle(*pickle) : Fail(ErrorCode::kBadData, "is missing");
      if (error) return InContext(std::move(error), FileId(f));
    }
    return llvm::Error::success();
  }

 private:
  static bool IsMetadata(std::string_view path) { return path.substr(path.rfind('/') + 1) == ".metadata"; }

  llvm::Error InContext(llvm::Error error, FileId file) const {
    return AddContext(std::move(error), fmt::format("the plan is not sound: the ready-made pickle of `{}`",
                                                    plan_.target.files[file.index()].path));
  }

  llvm::Error Check(FileId file) {
    const std::vector<PlacedBytes>& blobs = blobs_[file.index()];
    const StoredFile& target = plan_.target.files[file.index()];
    UCP_ASSIGN_OR_RETURN(const std::vector<ReadyMadeArchive> archives, ParseArchives(target.path, blobs, target.bytes));
    for (const ReadyMadeArchive& archive : archives) UCP_RETURN_IF_ERROR(CheckArchive(file, archive));
    return llvm::Error::success();
  }

  llvm::Error CheckArchive(FileId file, const ReadyMadeArchive& records) {
    const std::vector<PlacedBytes>& blobs = blobs_[file.index()];
    std::unordered_map<std::string_view, const ArchivedRecord*> by_name;
    std::string_view root;
    for (const ArchivedRecord& record : records) {
      by_name[record.name] = &record;
      if (record.name.ends_with("/data.pkl")) root = record.name.substr(0, record.name.find('/') + 1);
    }
    const auto found = by_name.find(std::string(root) + "data.pkl");
    const auto pickle =
        found == by_name.end() ? std::nullopt : FindBytes(blobs, found->second->begin, found->second->bytes);
    if (!pickle) return Fail(ErrorCode::kBadData, "is missing");
    UCP_ASSIGN_OR_RETURN(const std::shared_ptr<const pytorch::Pickle> read, pickles_.Read(*pickle));
    if (const pytorch::Value* unknown = known_.FindUnknown(*read->root)) {
      return Fail(ErrorCode::kBadData, "holds an object whose loading would run `{}`", objects::CallText(*unknown));
    }
    for (const auto& storage : read->storages) {
      const auto record = by_name.find(fmt::format("{}data/{}", root, storage->key));
      UCP_RETURN_IF_ERROR(CheckStorage(*storage, file, record == by_name.end() ? nullptr : record->second));
    }
    return llvm::Error::success();
  }

  llvm::Error CheckStorage(const pytorch::Storage& storage, FileId file, const ArchivedRecord* record) const {
    const auto bytes = static_cast<std::uint64_t>(storage.elements * ItemBytes(storage.dtype));
    if (record == nullptr || record->bytes != bytes) {
      return Fail(ErrorCode::kBadData, "names a storage `{}` of {} bytes, and the archive has {} for it", storage.key,
                  bytes, record == nullptr ? 0 : record->bytes);
    }
    const auto written = dtypes_.find({file, record->begin});
    if (bytes == 0 || storage.untyped || written == dtypes_.end() || written->second == storage.dtype) {
      return llvm::Error::success();
    }
    return Fail(ErrorCode::kBadData, "names a storage `{}` of {}, and {} is written there", storage.key,
                Name(storage.dtype), Name(written->second));
  }

  const Plan& plan_;
  const objects::KnownObjects known_;
  const std::vector<std::vector<PlacedBytes>> blobs_;
  std::map<std::pair<FileId, std::uint64_t>, DType> dtypes_;  // Of what is written to the record that begins there.
  pytorch::PickleCache pickles_;
};

}  // namespace

llvm::Error CheckReadyMadePickles(const Plan& plan, std::span<const std::string> keep) {
  return PickleCheck(plan, keep).Run();
}

}  // namespace ucp
