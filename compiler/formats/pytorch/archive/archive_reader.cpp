#include "compiler/formats/pytorch/archive/archive_reader.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "compiler/files/lfs_pointer.h"
#include "compiler/formats/pytorch/archive/stream_reader.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::pytorch {
namespace {

// By name; the directory's order is the writer's.
class Records {
 public:
  explicit Records(const ZipDirectory& directory) {
    by_name_.reserve(directory.records.size());
    for (const ZipRecord& record : directory.records) by_name_.emplace(record.name, &record);
  }
  const ZipRecord* Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const ZipRecord*> by_name_;
};

llvm::Expected<std::string> ReadRecord(const ReadableFile& file, const ZipRecord& record, std::uint64_t limit) {
  if (record.data.bytes > limit) {
    return Fail(ErrorCode::kUnsupported, "the record `{}` has {} bytes, more than the {} that are read", record.name,
                record.data.bytes, limit);
  }
  std::string bytes(record.data.bytes, '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(record.data.offset, std::as_writable_bytes(std::span(bytes))));
  const std::uint32_t crc32 = Crc32(bytes);
  if (crc32 == record.crc32) return bytes;
  return Fail(ErrorCode::kBadData,
              "the record `{}` has the checksum {:08x} and should have {:08x}; the file is damaged", record.name, crc32,
              record.crc32);
}

enum class Form { kZip, kStream };

// PyTorch's older forms do not begin as a zip archive does.
llvm::Expected<Form> FormOf(const ReadableFile& file, FileRange archive) {
  std::string first(std::min<std::uint64_t>(archive.bytes, 265), '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(archive.offset, std::as_writable_bytes(std::span(first))));
  if (first.starts_with("PK")) return Form::kZip;
  if (first.starts_with('\x80')) return Form::kStream;
  if (first.size() >= 262 && first.compare(257, 5, "ustar") == 0) {
    return Fail(
        ErrorCode::kUnsupported,
        "the file is a tar archive, as PyTorch wrote before 0.4; load it with torch.load and save it again with "
        "torch.save");
  }
  UCP_RETURN_IF_ERROR(RefuseLfsPointer(file));
  return Fail(ErrorCode::kBadData, "the file of {} bytes does not begin as one that torch.save wrote", archive.bytes);
}

llvm::Error CheckByteOrder(const ReadableFile& file, const Records& records) {
  const ZipRecord* record = records.Find("byteorder");
  if (record == nullptr) return llvm::Error::success();  // PyTorch before 2.1, always little-endian.
  UCP_ASSIGN_OR_RETURN(const std::string order, ReadRecord(file, *record, 64));
  if (order == "little") return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "the byte order of the file is `{}`; only little-endian files are served",
              order);
}

llvm::Error PlaceStorages(const Records& records, Archive& archive) {
  archive.storages.reserve(archive.pickle->storages.size());
  for (const auto& storage : archive.pickle->storages) {
    const ZipRecord* record = records.Find("data/" + storage->key);
    if (record == nullptr) {
      return Fail(ErrorCode::kBadData, "the storage `{}` has no record `data/{}`", storage->key, storage->key);
    }
    const auto bytes = static_cast<std::uint64_t>(storage->elements * ItemBytes(storage->dtype));
    if (record->data.bytes != bytes) {
      return Fail(ErrorCode::kBadData, "the record `data/{}` has {} bytes, and {} elements of {} take {}", storage->key,
                  record->data.bytes, storage->elements, Name(storage->dtype), bytes);
    }
    archive.storages.emplace(storage->key, StorageExtent{record->data, record->crc32, storage});
  }
  return llvm::Error::success();
}

llvm::Expected<Archive> Read(const ReadableFile& file, const ZipDirectory& directory, const ArchiveOptions& options) {
  const Records records(directory);
  UCP_RETURN_IF_ERROR(CheckByteOrder(file, records));
  const ZipRecord* record = records.Find("data.pkl");
  if (record == nullptr) return Fail(ErrorCode::kBadData, "the archive has no record `data.pkl`");
  UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadRecord(file, *record, options.limits.bytes));

  Archive archive;
  archive.root_folder = directory.root;
  archive.pickle_data = record->data;
  if (options.cache != nullptr) {
    UCP_ASSIGN_OR_RETURN(archive.pickle, options.cache->Read(bytes, options.limits));
  } else {
    UCP_ASSIGN_OR_RETURN(Pickle pickle, ReadPickle(bytes, options.limits));
    archive.pickle = std::make_shared<const Pickle>(std::move(pickle));
  }
  UCP_RETURN_IF_ERROR(PlaceStorages(records, archive));
  return archive;
}

}  // namespace

llvm::Expected<Archive> ReadArchive(const ReadableFile& file, const ArchiveOptions& options) {
  return ReadArchive(file, {0, file.bytes()}, options);
}

llvm::Expected<Archive> ReadArchive(const ReadableFile& file, FileRange archive, const ArchiveOptions& options) {
  UCP_RETURN_IF_ERROR(CheckInterrupted());
  const std::string phrase = fmt::format("`{}`", file.path());
  if (archive.offset <= file.bytes() && archive.bytes <= file.bytes() - archive.offset && archive.bytes > 0) {
    auto form = FormOf(file, archive);
    if (!form) return AddContext(form.takeError(), phrase);
    if (*form == Form::kStream) {
      auto stream = ReadStream(file, archive, options.limits);
      if (!stream) return AddContext(stream.takeError(), phrase);
      return stream;
    }
  }
  UCP_ASSIGN_OR_RETURN(const ZipDirectory directory, ReadZipDirectory(file, archive));
  auto result = Read(file, directory, options);
  if (!result) return AddContext(result.takeError(), phrase);
  return result;
}

}  // namespace ucp::pytorch
