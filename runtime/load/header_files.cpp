// The formats' own readers are run on a file that notes what they read, so that nothing has to be known here of where
// headers lie.
#include "runtime/load/header_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "compiler/formats/pytorch/archive_reader.h"
#include "compiler/formats/safetensors/header.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// Steps and states of random generators are read with the headers; a header with more of them is read once more.
constexpr std::uint64_t kLargestSmallStorage = std::uint64_t{8} << 10;
constexpr std::uint64_t kMostSmallStorages = std::uint64_t{32} << 10;  // Bytes of one file.

bool Covers(const HeaderOfFile::Piece& piece, std::uint64_t offset, std::uint64_t bytes) {
  return piece.offset <= offset && bytes <= piece.bytes.size() && offset - piece.offset <= piece.bytes.size() - bytes;
}

// Which piece has which bytes. There is one for each tensor of a file.
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

// Whoever hashes or reads again what was read finds it in the notes.
llvm::Error ReadArchiveHeader(const ReadableFile& file) {
  UCP_ASSIGN_OR_RETURN(const pytorch::Archive archive, pytorch::ReadArchive(file));
  std::string bytes(archive.pickle_data.bytes, '\0');
  UCP_RETURN_IF_ERROR(file.ReadAt(archive.pickle_data.offset, std::as_writable_bytes(std::span(bytes))));
  std::uint64_t small = 0;
  for (const auto& storage : archive.pickle->storages) {
    const pytorch::StorageExtent& extent = archive.storages.at(storage->key);
    if (extent.data.bytes > kLargestSmallStorage || small + extent.data.bytes > kMostSmallStorages) continue;
    small += extent.data.bytes;
    bytes.resize(extent.data.bytes);
    UCP_RETURN_IF_ERROR(file.ReadAt(extent.data.offset, std::as_writable_bytes(std::span(bytes))));
  }
  return llvm::Error::success();
}

llvm::Error ReadSafetensorsHeader(const ReadableFile& file) {
  std::array<std::byte, 8> length_bytes{};
  UCP_RETURN_IF_ERROR(file.ReadAt(0, length_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(length_bytes[i]);
  if (length > std::min(safetensors::kMostHeaderBytes, file.bytes() - length_bytes.size())) {
    return Fail(ErrorCode::kBadData, "its header is too long");
  }
  std::string json(length, '\0');
  return file.ReadAt(length_bytes.size(), std::as_writable_bytes(std::span(json)));
}

}  // namespace

std::uint64_t HeaderOfFile::bytes() const {
  std::uint64_t sum = path.size();
  for (const Piece& piece : pieces) sum += piece.bytes.size() + sizeof(Piece);
  return sum;
}

bool HasHeader(std::string_view path) { return path.ends_with(".pt") || path.ends_with(".safetensors"); }

llvm::Expected<HeaderOfFile> ReadHeader(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const FileStatus status, files.Status(path));
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenForReading(path));
  HeaderOfFile header{path, file->bytes(), {}, VersionOf(status)};
  const NotingFile noting(*file, header);
  UCP_RETURN_IF_ERROR(path.ends_with(".pt") ? ReadArchiveHeader(noting) : ReadSafetensorsHeader(noting));
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
