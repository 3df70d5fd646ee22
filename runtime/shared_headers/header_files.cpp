// The formats' own readers are run on a file that notes what they read, so that nothing has to be known here of where
// headers lie.
#include "runtime/shared_headers/header_files.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

bool Covers(const HeaderOfFile::Piece& piece, std::uint64_t offset, std::uint64_t bytes) {
  return piece.offset <= offset && bytes <= piece.bytes.size() && offset - piece.offset <= piece.bytes.size() - bytes;
}

// The bytes of each piece. There is one for each tensor of a file.
class PlacesOfPieces {
 public:
  explicit PlacesOfPieces(const HeaderOfFile& header) : header_(header) {
    for (std::size_t piece = 0; piece < header.pieces.size(); ++piece) Add(piece);
  }

  void Add(std::size_t piece) {
    const auto [entry, is_new] = by_offset_.try_emplace(header_.pieces[piece].offset, piece);
    const bool is_longer = header_.pieces[piece].bytes.size() > header_.pieces[entry->second].bytes.size();
    if (!is_new && is_longer) entry->second = piece;
  }

  // Null: it has to be read. So it does if a shorter piece begins between the beginning of the one that has it and it.
  const HeaderOfFile::Piece* Find(std::uint64_t offset, std::uint64_t bytes) const {
    const auto behind = by_offset_.upper_bound(offset);
    if (behind == by_offset_.begin()) return nullptr;
    const HeaderOfFile::Piece& piece = header_.pieces[std::prev(behind)->second];
    return Covers(piece, offset, bytes) ? &piece : nullptr;
  }

 private:
  const HeaderOfFile& header_;
  std::map<std::uint64_t, std::size_t> by_offset_;
};

class NotingFile : public ReadableFile {
 public:
  NotingFile(const ReadableFile& file, HeaderOfFile& header) : file_(file), header_(header), places_(header) {}

  const std::string& path() const override { return file_.path(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (const HeaderOfFile::Piece* piece = places_.Find(offset, buffer.size())) {
      std::ranges::copy(std::as_bytes(std::span(piece->bytes)).subspan(offset - piece->offset, buffer.size()),
                        buffer.begin());
      return llvm::Error::success();
    }
    UCP_RETURN_IF_ERROR(file_.ReadAt(offset, buffer));
    header_.pieces.push_back({offset, std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size())});
    places_.Add(header_.pieces.size() - 1);
    return llvm::Error::success();
  }
  void StartReading(std::uint64_t offset, std::uint64_t bytes) const override { file_.StartReading(offset, bytes); }

 private:
  const ReadableFile& file_;
  HeaderOfFile& header_;
  mutable PlacesOfPieces places_;
};

class HeaderFile : public ReadableFile {
 public:
  HeaderFile(ReadableFileSystem& files, const HeaderOfFile& header) : files_(files), header_(header), places_(header) {}

  const std::string& path() const override { return header_.path; }
  std::uint64_t bytes() const override { return header_.file_bytes; }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (const HeaderOfFile::Piece* piece = places_.Find(offset, buffer.size())) {
      std::ranges::copy(std::as_bytes(std::span(piece->bytes)).subspan(offset - piece->offset, buffer.size()),
                        buffer.begin());
      return llvm::Error::success();
    }
    std::lock_guard lock(mutex_);
    if (file_ == nullptr) {
      UCP_ASSIGN_OR_RETURN(file_, files_.OpenForReading(header_.path));
    }
    return file_->ReadAt(offset, buffer);
  }

 private:
  ReadableFileSystem& files_;
  const HeaderOfFile& header_;
  const PlacesOfPieces places_;
  mutable std::mutex mutex_;  // Protects the opening.
  mutable std::unique_ptr<ReadableFile> file_;
};

}  // namespace

std::uint64_t HeaderOfFile::bytes() const {
  std::uint64_t sum = path.size();
  for (const Piece& piece : pieces) sum += piece.bytes.size() + sizeof(Piece);
  return sum;
}

llvm::Expected<HeaderOfFile> ReadHeader(ReadableFileSystem& files, const Format& format, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const FileStatus status, files.Status(path));
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenForReading(path));
  HeaderOfFile header{path, file->bytes(), {}, VersionOf(status)};
  const NotingFile noting(*file, header);
  UCP_RETURN_IF_ERROR(format.ReadHeader(noting));
  return header;
}

void Add(const HeaderOfFile& header, wire::ByteWriter& writer) {
  writer.Add(std::string_view(header.path));
  writer.Add(header.file_bytes);
  writer.Add(header.version.inode);
  writer.Add(header.version.bytes);
  writer.Add(static_cast<std::uint64_t>(header.version.modified_nanoseconds));
  writer.Add(header.pieces.size());
  for (const HeaderOfFile::Piece& piece : header.pieces) {
    writer.Add(piece.offset);
    writer.Add(std::string_view(piece.bytes));
  }
}

HeaderOfFile TakeHeader(wire::ByteReader& reader) {
  HeaderOfFile header;
  header.path = reader.Text();
  header.file_bytes = reader.Number();
  header.version.inode = reader.Number();
  header.version.bytes = reader.Number();
  header.version.modified_nanoseconds = static_cast<std::int64_t>(reader.Number());
  header.pieces.resize(reader.Count());
  for (HeaderOfFile::Piece& piece : header.pieces) {
    piece.offset = reader.Number();
    piece.bytes = reader.Text();
  }
  return header;
}

std::unique_ptr<ReadableFile> OpenHeader(ReadableFileSystem& files, const HeaderOfFile& header) {
  return std::make_unique<HeaderFile>(files, header);
}

}  // namespace ucp
