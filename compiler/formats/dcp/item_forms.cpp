// A parse depends on the length of the item and on the bytes that the archive's reader asked for, which SeenFile notes.
// Of these, checksums of two kinds of records may differ: that of the tensor's storage, which is handed on, and those
// of records that no reader opens. Both stand in the zip directory, and for archives of torch.save only there.
#include "compiler/formats/dcp/item_forms.h"

#include <algorithm>

#include "compiler/formats/pytorch/archive/zip_reader.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using pytorch::FileRange;

constexpr std::size_t kMostForms = 1024;  // Of about 1.5 KiB each.
constexpr std::uint64_t kCrcBytes = 4;

// Passes reads on and notes them.
class SeenFile : public ReadableFile {
 public:
  explicit SeenFile(const ReadableFile& file) : file_(file) {}

  const std::string& path() const override { return file_.path(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    seen_.push_back({offset, buffer.size()});
    return file_.ReadAt(offset, buffer);
  }

  std::vector<FileRange> TakeSeen() { return std::move(seen_); }

 private:
  const ReadableFile& file_;
  mutable std::vector<FileRange> seen_;
};

// Sorted and apart.
std::vector<FileRange> Joined(std::vector<FileRange> ranges) {
  std::ranges::sort(ranges, {}, &FileRange::offset);
  std::vector<FileRange> joined;
  for (const FileRange& range : ranges) {
    const std::uint64_t end = joined.empty() ? 0 : joined.back().offset + joined.back().bytes;
    if (joined.empty() || range.offset > end) {
      joined.push_back(range);
    } else {
      joined.back().bytes = std::max(end, range.offset + range.bytes) - joined.back().offset;
    }
  }
  return joined;
}

// `ranges`, sorted and apart, without the four bytes of a checksum.
std::vector<FileRange> Without(std::uint64_t crc32, const std::vector<FileRange>& ranges) {
  std::vector<FileRange> left;
  for (const FileRange& range : ranges) {
    const std::uint64_t end = range.offset + range.bytes;
    const std::uint64_t first_end = std::clamp(crc32, range.offset, end);
    const std::uint64_t second = std::clamp(crc32 + kCrcBytes, range.offset, end);
    if (first_end > range.offset) left.push_back({range.offset, first_end - range.offset});
    if (end > second) left.push_back({second, end - second});
  }
  return left;
}

std::uint32_t LittleEndian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

}  // namespace

llvm::Expected<FormedItem> ItemForms::Read(const ItemFile& file, FileRange item, bool is_tensor) {
  const auto of_length = known_.find(item.bytes);
  if (!is_tensor || of_length == known_.end()) return Parse(file, item, is_tensor);
  for (const KnownForm& known : of_length->second) {
    if (!Fits(known, file, item)) continue;
    const auto crc32 = file.InMemory(item.offset + known.crc32_offset, kCrcBytes);
    if (crc32) return FormedItem{known.form, LittleEndian(*crc32)};
  }
  return Parse(file, item, is_tensor);
}

bool ItemForms::Fits(const KnownForm& known, const ItemFile& file, FileRange item) {
  return std::ranges::all_of(known.same, [&](const Stretch& stretch) {
    return file.InMemory(item.offset + stretch.offset, stretch.bytes.size()) == stretch.bytes;
  });
}

llvm::Expected<FormedItem> ItemForms::Parse(const ItemFile& file, FileRange item, bool is_tensor) {
  SeenFile seen(file);
  pytorch::ArchiveOptions options;
  options.cache = &cache_;
  UCP_ASSIGN_OR_RETURN(const pytorch::Archive archive, pytorch::ReadArchive(seen, item, options));
  std::string pickle(archive.pickle_data.bytes, '\0');
  UCP_RETURN_IF_ERROR(seen.ReadAt(archive.pickle_data.offset, std::as_writable_bytes(std::span(pickle))));
  ItemForm form{{}, ContentHash(pickle)};
  if (!is_tensor) return FormedItem{&forms_.emplace_back(std::move(form)), std::nullopt};
  auto tensor = TensorOf(archive, item.offset);
  if (!tensor) return AddContext(tensor.takeError(), fmt::format("`{}`", file.path()));
  form.tensor = std::move(tensor->tensor);
  const ItemForm& kept = forms_.emplace_back(std::move(form));
  const bool is_zip = !archive.root_folder.empty();
  if (is_zip && known_count_ < kMostForms) Learn(file, item, seen.TakeSeen(), *tensor->storage, kept);
  return FormedItem{&kept, tensor->storage->crc32};
}

void ItemForms::Learn(const ItemFile& file, FileRange item, std::vector<FileRange> seen,
                      const pytorch::StorageExtent& storage, const ItemForm& form) {
  auto directory = pytorch::ReadZipDirectory(file, item);
  if (!directory) return llvm::consumeError(directory.takeError());
  KnownForm known{&form, 0, {}};
  std::vector<FileRange> same = Joined(std::move(seen));
  for (const pytorch::ZipRecord& record : directory->records) {
    const bool is_opened = record.name == "data.pkl" || record.name == "byteorder";
    if (is_opened || !record.crc32_place) continue;
    same = Without(*record.crc32_place, same);
    if (record.data.offset == storage.data.offset && record.name.starts_with("data/")) {
      known.crc32_offset = *record.crc32_place - item.offset;
    }
  }
  if (known.crc32_offset == 0) return;
  for (const FileRange& range : same) {
    const auto bytes = file.InMemory(range.offset, range.bytes);
    if (!bytes) return;
    known.same.push_back({range.offset - item.offset, std::string(*bytes)});
  }
  known_[item.bytes].push_back(std::move(known));
  ++known_count_;
}

}  // namespace ucp::dcp
