#include "runtime/manifest/check_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/digest/file_sums.h"

namespace ucp {
namespace {

// A part of one file.
struct Window {
  std::size_t file = 0;  // Of Manifest::files.
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

// The fault of a file before it is read; empty if nothing is.
llvm::Expected<std::string> FaultOfSize(ReadableFileSystem& files, const std::string& root, const ManifestFile& file) {
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(JoinPath(root, file.path)));
  if (status.kind == PathKind::kMissing) return fmt::format("`{}` is missing", file.path);
  if (status.kind != PathKind::kFile) return fmt::format("`{}` is not a file", file.path);
  if (status.bytes == file.bytes) return "";
  return fmt::format("`{}` has {} bytes, and had {} when it was written", file.path, status.bytes, file.bytes);
}

}  // namespace

llvm::Expected<std::vector<std::string>> CheckFiles(ReadableFileSystem& files, const std::string& root,
                                                    const Manifest& manifest, std::uint64_t window_bytes,
                                                    const ParallelOptions& options) {
  std::vector<std::string> faults(manifest.files.size());
  std::vector<Window> windows;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    UCP_ASSIGN_OR_RETURN(faults[i], FaultOfSize(files, root, manifest.files[i]));
    if (!faults[i].empty()) continue;
    for (std::uint64_t begin = 0; begin < manifest.files[i].bytes; begin += window_bytes) {
      windows.push_back({i, begin, std::min(window_bytes, manifest.files[i].bytes - begin)});
    }
  }
  std::vector<std::uint64_t> sizes;
  for (const ManifestFile& file : manifest.files) sizes.push_back(file.bytes);
  FileSums sums(std::move(sizes), manifest.digests);
  std::vector<std::unique_ptr<std::byte[]>> buffers(options.threads);
  auto read_window = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
    const Window& window = windows[number];
    if (buffers[thread] == nullptr) buffers[thread] = std::make_unique_for_overwrite<std::byte[]>(window_bytes);
    std::span<std::byte> bytes(buffers[thread].get(), window.bytes);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file,
                         files.OpenForReading(JoinPath(root, manifest.files[window.file].path)));
    UCP_RETURN_IF_ERROR(file->ReadAt(window.begin, bytes));
    sums.Add(window.file, window.begin, bytes);
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(ForEachInParallel(windows.size(), options, read_window));
  std::vector<std::string> found;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    if (faults[i].empty() && sums.Digest(i) != file.digest) {
      faults[i] = fmt::format("`{}` is not what was written: its bytes have the digest {}, and had {}", file.path,
                              sums.Digest(i), file.digest);
    }
    if (!faults[i].empty()) found.push_back(faults[i]);
  }
  return found;
}

}  // namespace ucp
