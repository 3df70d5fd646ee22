// The first bytes of a file say which form it has, as for torch.load: those of a zip archive, or else a pickle. A file
// that no reader would take for either, by its bytes and its name, is not one.
#include "compiler/formats/objects/file_objects.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "compiler/files/memory_file.h"
#include "compiler/formats/objects/pickle_objects.h"
#include "compiler/formats/pytorch/archive/zip_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::objects {
namespace {

using pytorch::FileRange;
using pytorch::PickleScan;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // Of PyTorch's stream.
constexpr int kPicklesOfStream = 5;                                              // Its elements are behind them.

bool HasPickleName(std::string_view path) {
  constexpr std::array<std::string_view, 9> kEndings = {".pt",     ".pth", ".bin", ".ckpt", ".pkl",
                                                        ".pickle", ".p",   ".tar", ".pyt"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return path.ends_with(ending); });
}

class FileScanner {
 public:
  FileScanner(const ReadableFile& file, const KnownObjects& known) : file_(file), known_(known) {}

  llvm::Expected<std::optional<FileObjects>> Scan() {
    std::string first(std::min<std::uint64_t>(file_.bytes(), 265), '\0');
    UCP_RETURN_IF_ERROR(file_.ReadAt(0, std::as_writable_bytes(std::span(first))));
    if (first.starts_with("PK")) return ScanZip({0, file_.bytes()});
    if (first.size() >= 262 && first.compare(257, 5, "ustar") == 0) {
      found_.unread = "it is a tar archive, as PyTorch wrote before 0.4";
      return found_;
    }
    const bool is_pickle = first.size() >= 2 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5;
    const bool is_safetensors = first.size() > 8 && first[8] == '{' && file_.path().ends_with(".safetensors");
    if (!is_pickle && !HasPickleName(file_.path())) return std::nullopt;
    if (is_safetensors || first.empty()) return std::nullopt;
    UCP_RETURN_IF_ERROR(ScanRow());
    // Any bytes may be in a file of such a name; what breaks before it names anything is not a pickle.
    if (!is_pickle && !found_.unread.empty() && found_.by_name.empty()) return std::nullopt;
    return found_;
  }

  // An item of another form is not read, and so not called safe.
  llvm::Expected<FileObjects> ScanArchives(std::span<const FileRange> archives) {
    for (const FileRange& archive : archives) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      auto found = ScanZip(archive);
      if (!found) return found.takeError();
      if (!*found) NoteUnread(fmt::format("the archive at {} holds no pickle", archive.offset));
    }
    return std::move(found_);
  }

 private:
  llvm::Expected<std::optional<FileObjects>> ScanZip(FileRange archive) {
    llvm::Expected<pytorch::ZipDirectory> directory = pytorch::ReadZipDirectory(file_, archive);
    if (!directory) {
      NoteUnread(TakeFailure(directory.takeError()).message);
      return found_;
    }
    bool has_pickles = false;
    for (const pytorch::ZipRecord& record : directory->records) {
      if (!record.name.ends_with(".pkl")) continue;
      has_pickles = true;
      UCP_RETURN_IF_ERROR(ScanRecord(record));
    }
    if (!has_pickles) return std::nullopt;
    return found_;
  }

  // torch.load does not look at checksums.
  llvm::Error ScanRecord(const pytorch::ZipRecord& record) {
    if (record.data.bytes > limits_.bytes) {
      NoteUnread(fmt::format("the record `{}` has {} bytes, more than the {} that are read", record.name,
                             record.data.bytes, limits_.bytes));
      return llvm::Error::success();
    }
    std::string bytes(record.data.bytes, '\0');
    UCP_RETURN_IF_ERROR(file_.ReadAt(record.data.offset, std::as_writable_bytes(std::span(bytes))));
    const PickleScan scan(bytes, limits_);
    AddObjectsOf(scan, known_, found_);
    if (scan.failure()) NoteUnread(*scan.failure());
    if (Crc32(bytes) != record.crc32) NoteUnread(fmt::format("the record `{}` is damaged", record.name));
    return llvm::Error::success();
  }

  // One pickle after another. The window grows until it holds all of the next one.
  llvm::Error ScanRow() {
    std::uint64_t offset = 0;
    int most = 0;  // No limit.
    for (int number = 0; offset < file_.bytes() && (most == 0 || number < most); ++number) {
      const std::uint64_t available = std::min<std::uint64_t>(file_.bytes() - offset, limits_.bytes);
      std::uint64_t count = std::min<std::uint64_t>(available, 64 << 10);
      while (true) {
        std::string window(count, '\0');
        UCP_RETURN_IF_ERROR(file_.ReadAt(offset, std::as_writable_bytes(std::span(window))));
        const PickleScan scan(window, limits_);
        if (scan.missing_bytes() != 0 && scan.missing_bytes() <= available - count) {
          count = std::min(available, std::max(2 * count, count + scan.missing_bytes()));
          continue;
        }
        AddObjectsOf(scan, known_, found_);
        if (scan.failure()) {
          NoteUnread(*scan.failure());
          return llvm::Error::success();
        }
        if (number == 0 && IsMagic(*scan.root())) most = kPicklesOfStream;
        offset += scan.bytes_read();
        break;
      }
    }
    return llvm::Error::success();
  }

  static bool IsMagic(const pytorch::Value& value) {
    const auto* number = value.As<pytorch::BigInteger>();
    return number != nullptr && number->bytes == kMagic;
  }

  void NoteUnread(std::string why) {
    if (found_.unread.empty()) found_.unread = std::move(why);
  }

  const ReadableFile& file_;
  const KnownObjects& known_;
  const pytorch::PickleLimits limits_;
  FileObjects found_;
};

}  // namespace

bool FileObjects::IsSafe() const {
  return odd_instruction.empty() && unread.empty() &&
         std::all_of(by_name.begin(), by_name.end(), [](const auto& entry) { return entry.second.is_known; });
}

void FileObjects::Add(const FileObjects& other) {
  for (const auto& [name, found] : other.by_name) {
    FoundObject& sum = by_name[name];
    sum.called += found.called;
    sum.named += found.named;
    sum.is_known = sum.is_known && found.is_known;
    if (sum.calls.empty()) sum.calls = found.calls;
  }
  if (odd_instruction.empty()) odd_instruction = other.odd_instruction;
  if (unread.empty()) unread = other.unread;
}

llvm::Expected<std::optional<FileObjects>> ObjectsIn(const ReadableFile& file, const KnownObjects& known) {
  return FileScanner(file, known).Scan();
}

llvm::Expected<FileObjects> ObjectsInArchives(const ReadableFile& file, std::span<const FileRange> archives,
                                              const KnownObjects& known) {
  return FileScanner(file, known).ScanArchives(archives);
}

std::optional<FileObjects> ObjectsIn(const std::string& name, const std::string& content, const KnownObjects& known) {
  const MemoryFile file(name, content);
  return llvm::cantFail(ObjectsIn(file, known));
}

}  // namespace ucp::objects
