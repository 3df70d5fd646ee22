#include "runtime/inspect/scan_objects.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "compiler/formats/format.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

constexpr int kMostLevels = 64;

class Scanning {
 public:
  Scanning(ReadableFileSystem& files, ObjectScan& scan) : files_(files), scan_(scan) {}

  llvm::Error Folder(const std::string& path, const std::string& name, int level = 0) {
    if (level > kMostLevels)
      return Fail(ErrorCode::kUnsupported, "`{}` is more than {} folders deep", path, kMostLevels);
    NotePackedArchives(path, name);
    UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files_.List(path));
    for (const DirectoryEntry& entry : entries) {
      const std::string full = JoinPath(path, entry.name);
      const std::string inner = name.empty() ? entry.name : JoinPath(name, entry.name);
      if (entry.is_directory && !entry.is_link) UCP_RETURN_IF_ERROR(Folder(full, inner, level + 1));
      if (entry.is_directory) continue;
      UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(full));
      if (kind == PathKind::kFile) UCP_RETURN_IF_ERROR(File(full, inner));
    }
    return llvm::Error::success();
  }

  llvm::Error File(const std::string& path, const std::string& name) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    ++scan_.files;
    llvm::Expected<std::optional<objects::FileObjects>> found = Objects(path);
    if (!found) {
      objects::FileObjects unread;
      unread.unread = TakeFailure(found.takeError()).message;
      scan_.pickles.push_back({name, std::move(unread)});
    } else if (*found) {
      scan_.pickles.push_back({name, **std::move(found)});
    }
    return llvm::Error::success();
  }

 private:
  // Where it cannot be said which archives a file holds, whoever loads them may find others than a scan does.
  void NotePackedArchives(const std::string& path, const std::string& name) {
    for (const auto& format : AllFormats()) {
      auto packed = format->PackedArchives(files_, path);
      if (!packed) {
        objects::FileObjects unread;
        unread.unread = TakeFailure(packed.takeError()).message;
        scan_.pickles.push_back({name.empty() ? "." : name, std::move(unread)});
        continue;
      }
      for (const PackedArchive& archive : *packed) {
        Archives& of_file = archives_[JoinPath(path, archive.file)];
        if (archive.unpacked.empty()) {
          of_file.in_it.push_back({archive.offset, archive.bytes});
        } else {
          of_file.unpacked.push_back(JoinPath(path, archive.unpacked));
        }
      }
    }
  }

  llvm::Expected<std::optional<objects::FileObjects>> Objects(const std::string& path) {
    UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.OpenForReading(path));
    if (const auto archives = archives_.find(path); archives != archives_.end()) {
      UCP_ASSIGN_OR_RETURN(objects::FileObjects found,
                           objects::ObjectsInArchives(*file, archives->second.in_it, known_));
      for (const std::string& unpacked : archives->second.unpacked) UCP_RETURN_IF_ERROR(AddUnpacked(unpacked, found));
      return found;
    }
    return objects::ObjectsIn(*file, known_);
  }

  llvm::Error AddUnpacked(const std::string& path, objects::FileObjects& found) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.OpenForReading(path));
    const pytorch::FileRange all{0, file->bytes()};
    UCP_ASSIGN_OR_RETURN(const objects::FileObjects inside,
                         objects::ObjectsInArchives(*file, std::span(&all, 1), known_));
    found.Add(inside);
    return llvm::Error::success();
  }

  // Of a file that holds several.
  struct Archives {
    std::vector<pytorch::FileRange> in_it;
    std::vector<std::string> unpacked;  // Paths of the files that parts of it unpack to.
  };

  ReadableFileSystem& files_;
  ObjectScan& scan_;
  const objects::KnownObjects known_{{}, objects::KnownFor::kScans};
  std::unordered_map<std::string, Archives> archives_;  // By path.
};

}  // namespace

llvm::Expected<ObjectScan> ScanObjects(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(path));
  if (kind == PathKind::kMissing) return Fail(ErrorCode::kIo, "`{}` does not exist", path);
  ObjectScan scan{path, 0, {}};
  Scanning scanning(files, scan);
  UCP_RETURN_IF_ERROR(kind == PathKind::kDirectory ? scanning.Folder(path, "") : scanning.File(path, path));
  std::ranges::sort(scan.pickles, {}, &ScannedFile::path);
  return scan;
}

bool IsSafe(const ObjectScan& scan) {
  return std::ranges::all_of(scan.pickles, [](const ScannedFile& file) { return file.objects.IsSafe(); });
}

}  // namespace ucp
