// Rank 0 asks when it opens the first file of a folder: for all files of that kind there, or, in a universal
// checkpoint, where each tensor has a folder, in all folders beside it. A wrong guess costs a header that nobody looks
// at.
#include "runtime/shared_headers/shared_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/files/lasting_inodes.h"
#include "compiler/formats/format.h"
#include "compiler/support/error.h"
#include "runtime/shared_headers/header_files.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;  // Of the headers of one question, at rank 0.

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::string ExtensionOf(const std::string& path) { return path.substr(path.rfind('.')); }

// A part of the work: a file, or all files of a folder with this extension.
struct Asked {
  std::string path;
  std::string extension;  // Empty: a file.
};

std::string Encode(const std::vector<Asked>& asked) {
  wire::ByteWriter writer;
  for (const Asked& one : asked) {
    writer.Add(std::string_view(one.path));
    writer.Add(std::string_view(one.extension));
  }
  return writer.bytes();
}

std::vector<std::string> FilesOf(ReadableFileSystem& files, const Asked& asked) {
  if (asked.extension.empty()) return {asked.path};
  std::vector<std::string> paths;
  llvm::Expected<std::vector<DirectoryEntry>> entries = files.List(asked.path);
  if (!entries) {
    llvm::consumeError(entries.takeError());  // Rank 0 will find out.
    return paths;
  }
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.is_directory && entry.name.ends_with(asked.extension)) paths.push_back(JoinPath(asked.path, entry.name));
  }
  return paths;
}

// This rank's share of what rank 0 asks for.
std::string ReadShare(ReadableFileSystem& files, const Communicator& ranks, std::string_view asked) {
  wire::ByteReader reader(asked);
  wire::ByteWriter share;
  std::uint64_t room = kMostBytes / static_cast<std::uint64_t>(ranks.size());
  for (int number = 0; !reader.left().empty(); ++number) {
    const Asked one{reader.Text(), reader.Text()};
    if (number % ranks.size() != ranks.rank()) continue;
    for (const std::string& path : FilesOf(files, one)) {
      const Format* format = FindFormatOfHeader(path);
      if (format == nullptr) continue;
      llvm::Expected<HeaderOfFile> header = ReadHeader(files, *format, path);
      if (!header) {
        llvm::consumeError(header.takeError());  // Rank 0 will find out.
      } else if (header->bytes() <= room) {
        room -= header->bytes();
        Add(*header, share);
      }
    }
  }
  return share.bytes();
}

// Rank 0's.
class SharedFiles : public ReadableFileSystem {
 public:
  SharedFiles(ReadableFileSystem& files, Communicator& ranks) : files_(files), ranks_(ranks) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    {
      std::lock_guard lock(mutex_);
      UCP_RETURN_IF_ERROR(FailureOfTalk());
      const Format* format = FindFormatOfHeader(path);
      if (format != nullptr && !headers_.contains(path)) UCP_RETURN_IF_ERROR(AskAround(path));
      if (auto header = headers_.find(path); header != headers_.end()) {
        UCP_ASSIGN_OR_RETURN(const FileStatus now, files_.Status(path));
        if (MayBeSame(VersionOf(now), header->second.version)) return OpenHeader(files_, header->second);
      }
    }
    return files_.OpenForReading(path);
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files_.Kind(path); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files_.Status(path); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }

  llvm::Error FailureOfTalk() const {
    return failure_ ? MakeError(failure_->code, failure_->message) : llvm::Error::success();
  }

 private:
  llvm::Error AskAround(const std::string& path) {
    const std::string folder = FolderOf(path);
    const std::string around = folder.empty() ? "" : FolderOf(folder.substr(0, folder.size() - 1));
    const bool is_of_tensor = std::ranges::any_of(AllFormats(), [&](const auto& format) {
      const std::string_view tensors = format->folder_of_tensors();
      return !tensors.empty() && around.ends_with(fmt::format("/{}/", tensors));
    });
    if (!asked_.insert(is_of_tensor ? around : folder).second) return llvm::Error::success();
    std::vector<Asked> asked;
    if (is_of_tensor) {
      UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files_.List(around));
      for (const DirectoryEntry& entry : entries) {
        if (entry.is_directory) asked.push_back({around + entry.name, ExtensionOf(path)});
      }
    } else {
      for (std::string& beside : FilesOf(files_, {folder, ExtensionOf(path)})) asked.push_back({std::move(beside), ""});
    }
    return asked.size() < 2 ? llvm::Error::success() : Ask(asked);
  }

  // Where this fails, it does so on all ranks, and they serve no more.
  llvm::Error Ask(const std::vector<Asked>& asked) {
    llvm::Expected<std::vector<std::string>> all = Shares(Encode(asked));
    if (!all) {
      failure_ = TakeFailure(all.takeError());
      return FailureOfTalk();
    }
    for (const std::string& share : *all) {
      wire::ByteReader reader(share);
      while (!reader.left().empty()) {
        HeaderOfFile header = TakeHeader(reader);
        if (!reader.has_failed()) headers_.emplace(header.path, std::move(header));
      }
    }
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<std::string>> Shares(const std::string& question) {
    UCP_RETURN_IF_ERROR(FromFirstRank(ranks_, question).takeError());
    return ToFirstRank(ranks_, ReadShare(files_, ranks_, question));
  }

  ReadableFileSystem& files_;
  Communicator& ranks_;
  std::mutex mutex_;                    // Protects what follows, and the talking with other ranks.
  std::optional<FailureText> failure_;  // Of that talking.
  std::set<std::string> asked_;
  std::map<std::string, HeaderOfFile> headers_;  // By path.
};

llvm::Error Serve(ReadableFileSystem& files, Communicator& ranks) {
  while (true) {
    UCP_ASSIGN_OR_RETURN(const std::string asked, FromFirstRank(ranks, ""));
    if (asked.empty()) return llvm::Error::success();
    UCP_RETURN_IF_ERROR(ToFirstRank(ranks, ReadShare(files, ranks, asked)).takeError());
  }
}

}  // namespace

llvm::Error WithSharedHeaders(ReadableFileSystem& files, Communicator& ranks,
                              llvm::function_ref<llvm::Error(ReadableFileSystem&)> work) {
  if (ranks.size() == 1) return work(files);
  if (ranks.rank() != 0) return Serve(files, ranks);
  SharedFiles shared(files, ranks);
  llvm::Error error = work(shared);
  if (llvm::Error failure = shared.FailureOfTalk()) {
    llvm::consumeError(std::move(error));
    return failure;
  }
  llvm::Error ended = FromFirstRank(ranks, "").takeError();
  if (!error) return ended;
  llvm::consumeError(std::move(ended));  // Of the same failure, if ranks are gone.
  return error;
}

}  // namespace ucp
