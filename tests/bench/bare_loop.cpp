// bare_loop OUT THREADS FILE… [--read FILE…]: what a conversion does to its bytes, with nothing around it.
//
// Each FILE is read, its CRC-32 and two sums for digests are computed, and it is written to the folder OUT; those
// behind --read are read and their CRC-32 is computed. Threads and pieces are as the executor has them. Prints nothing;
// the time is for who runs it to take.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/digest/file_sums.h"
#include "runtime/digest/keyed_sum.h"
#include "runtime/storage/file_system.h"

namespace ucp {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{2} << 20;

struct File {
  std::unique_ptr<ReadableFile> source;
  std::unique_ptr<WritableFile> target;  // Null if it is only read.
};

struct Piece {
  std::size_t file = 0;
  std::uint64_t offset = 0;
};

llvm::Error Run(const std::string& out, unsigned threads, const std::vector<std::string>& paths, std::size_t copied) {
  FileSystem& files = RealFileSystem();
  std::vector<File> open;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    File file;
    UCP_ASSIGN_OR_RETURN(file.source, files.OpenForReading(paths[i]));
    if (i < copied) {
      std::string path = JoinPath(out, std::filesystem::path(paths[i]).filename());
      UCP_ASSIGN_OR_RETURN(file.target, files.CreateForWriting(path, file.source->bytes()));
    }
    for (std::uint64_t offset = 0; offset < file.source->bytes(); offset += kPieceBytes) pieces.push_back({i, offset});
    open.push_back(std::move(file));
  }
  std::vector<std::vector<std::byte>> buffers(threads, std::vector<std::byte>(kPieceBytes));
  std::vector<std::uint64_t> sizes;
  for (const File& file : open) sizes.push_back(file.source->bytes());
  FileSums of_files(sizes);
  SharedKeyedSum of_elements;
  std::atomic<std::uint32_t> checksums = 0;
  auto pass = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
    const Piece& piece = pieces[number];
    const File& file = open[piece.file];
    std::span<std::byte> bytes(buffers[thread].data(), std::min(kPieceBytes, file.source->bytes() - piece.offset));
    UCP_RETURN_IF_ERROR(file.source->ReadAt(piece.offset, bytes));
    checksums ^= Crc32(bytes);
    if (file.target == nullptr) return llvm::Error::success();
    of_files.Add(piece.file, piece.offset, bytes);
    KeyedSum of_piece;
    of_piece.AddElements(piece.offset / sizeof(float), sizeof(float),
                         bytes.first(bytes.size() / sizeof(float) * sizeof(float)));
    of_elements.Add(of_piece);
    UCP_RETURN_IF_ERROR(file.target->WriteAt(piece.offset, bytes));
    file.target->StartWriteback(piece.offset, bytes.size());
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(ForEachInStretches(pieces.size(), {threads, nullptr}, pass));
  for (const File& file : open) {
    if (file.target == nullptr) continue;
    UCP_RETURN_IF_ERROR(file.target->Sync());
    UCP_RETURN_IF_ERROR(file.target->Close());
  }
  return llvm::Error::success();
}

}  // namespace
}  // namespace ucp

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: bare_loop OUT THREADS FILE… [--read FILE…]\n");
    return 2;
  }
  std::vector<std::string> paths;
  std::size_t copied = SIZE_MAX;
  for (int i = 3; i < argc; ++i) {
    if (std::string(argv[i]) == "--read") {
      copied = paths.size();
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  llvm::Error error = ucp::Run(argv[1], static_cast<unsigned>(std::atoi(argv[2])), paths, copied);
  if (!error) return 0;
  fmt::print(stderr, "error: {}\n", ucp::TakeFailure(std::move(error)).message);
  return 1;
}
