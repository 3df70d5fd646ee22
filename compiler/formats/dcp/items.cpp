#include "compiler/formats/dcp/items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/parallel.h"

namespace ucp::dcp {
namespace {

constexpr std::size_t kItemsAtOnce = 256;  // Of one file, by one thread.

std::string PlaceText(const WantedItem& item) {
  return fmt::format("`{}` at {} to {}", item.entry->key, item.chunk->place.offset,
                     item.chunk->place.offset + item.chunk->place.bytes);
}

llvm::Error CheckTensor(const WantedItem& item, const ItemTensor& tensor) {
  const Chunk& chunk = *item.chunk;
  if (tensor.dtype != item.entry->dtype) {
    return Fail(ErrorCode::kBadData, "the item is of {}, and the metadata says {}", Name(tensor.dtype),
                Name(item.entry->dtype));
  }
  if (llvm::ArrayRef<std::int64_t>(tensor.sizes) == llvm::ArrayRef<std::int64_t>(chunk.sizes)) {
    return llvm::Error::success();
  }
  return Fail(ErrorCode::kBadData, "the item is a tensor of [{}], and the metadata says [{}]",
              fmt::join(tensor.sizes, ", "), fmt::join(chunk.sizes, ", "));
}

}  // namespace

llvm::Error Items::Read(const std::vector<std::string>& paths, std::vector<WantedItem> wanted) {
  wanted_ = std::move(wanted);
  std::ranges::sort(wanted_, {}, [](const WantedItem& item) {
    return std::tuple(item.file, item.chunk->place.offset, item.chunk->place.bytes);
  });
  UCP_RETURN_IF_ERROR(OpenFiles(paths));
  UCP_RETURN_IF_ERROR(CheckPlaces());
  tensors_.resize(wanted_.size());
  hashes_.resize(wanted_.size());
  number_of_chunk_.reserve(wanted_.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) number_of_chunk_.emplace(wanted_[i].chunk, i);
  UCP_RETURN_IF_ERROR(ReadItems());
  HashFiles(paths);
  return llvm::Error::success();
}

llvm::Error Items::OpenFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const std::string whole = JoinPath(folder_, path);
    UCP_ASSIGN_OR_RETURN(const FileStatus status, file_system_.Status(whole));
    if (status.kind != PathKind::kFile) {
      return Fail(ErrorCode::kBadData, "`{}` is {}, and `.metadata` lists it; copy the whole checkpoint", whole,
                  status.kind == PathKind::kMissing ? "missing" : "not a file");
    }
    files_.push_back({path, storage_.Add(StoredFile{path, status.bytes, ""})});
  }
  return llvm::Error::success();
}

llvm::Error Items::CheckPlaces() const {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const WantedItem& item = wanted_[i];
    const ItemPlace& place = item.chunk->place;
    const StoredFile& file = storage_.files[files_[item.file].id.index()];
    if (place.offset > file.bytes || place.bytes > file.bytes - place.offset) {
      return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and `.metadata` says that it holds {}; it is cut off",
                  JoinPath(folder_, file.path), file.bytes, PlaceText(item));
    }
    if (i == 0 || wanted_[i - 1].file != item.file) continue;
    const ItemPlace& before = wanted_[i - 1].chunk->place;
    if (before.offset + before.bytes <= place.offset) continue;
    return Fail(ErrorCode::kBadData, "`.metadata` says that `{}` holds {} and {}, which overlap",
                JoinPath(folder_, file.path), PlaceText(wanted_[i - 1]), PlaceText(item));
  }
  return llvm::Error::success();
}

llvm::Error Items::ReadItems() {
  std::vector<std::size_t> begins;  // Of stretches of neighbours in one file.
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const bool continues = i > 0 && wanted_[i].file == wanted_[i - 1].file && i - begins.back() < kItemsAtOnce;
    if (!continues) begins.push_back(i);
  }
  begins.push_back(wanted_.size());
  return ForEachInParallel(begins.size() - 1, {threads_, nullptr}, [&](unsigned, std::uint64_t stretch) -> llvm::Error {
    const std::size_t begin = begins[stretch];
    UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                         file_system_.OpenForReading(JoinPath(folder_, files_[wanted_[begin].file].path)));
    for (std::size_t i = begin; i < begins[stretch + 1]; ++i) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      if (llvm::Error error = ReadItem(*file, i)) return AddContext(std::move(error), PlaceText(wanted_[i]));
    }
    return llvm::Error::success();
  });
}

llvm::Error Items::ReadItem(const ReadableFile& file, std::size_t number) {
  const WantedItem& item = wanted_[number];
  const pytorch::FileRange range{item.chunk->place.offset, item.chunk->place.bytes};
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ItemFile> ends, ItemFile::Open(file, range));
  pytorch::ArchiveOptions options;
  options.cache = &pickles_;
  UCP_ASSIGN_OR_RETURN(const pytorch::Archive archive, pytorch::ReadArchive(*ends, range, options));
  std::string pickle(archive.pickle_data.bytes, '\0');
  UCP_RETURN_IF_ERROR(ends->ReadAt(archive.pickle_data.offset, std::as_writable_bytes(std::span(pickle))));
  hashes_[number] = ContentHash(pickle);
  if (!item.entry->is_tensor) return llvm::Error::success();
  auto tensor = TensorOf(archive);
  llvm::Error error = tensor ? CheckTensor(item, *tensor) : tensor.takeError();
  if (error) return AddContext(std::move(error), fmt::format("`{}`", file.path()));
  tensors_[number] = *std::move(tensor);
  return llvm::Error::success();
}

void Items::HashFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> all(paths.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    all[wanted_[i].file] += fmt::format("{} {} ", wanted_[i].chunk->place.offset, hashes_[i]);
  }
  for (std::size_t f = 0; f < all.size(); ++f) storage_.files[files_[f].id.index()].header_hash = ContentHash(all[f]);
  hashes_.clear();
}

llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> Items::Keep(std::vector<const Entry*> entries) {
  const auto number = [&](const Entry* entry) { return number_of_chunk_.at(&entry->chunks.front()); };
  std::ranges::sort(entries, {}, number);
  std::unordered_map<const Entry*, pytorch::ValuePtr> kept;
  std::unique_ptr<ReadableFile> file;
  std::optional<std::uint32_t> open;
  for (const Entry* entry : entries) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const WantedItem& item = wanted_[number(entry)];
    const DataFile& data = files_[item.file];
    if (open != item.file) {
      UCP_ASSIGN_OR_RETURN(file, file_system_.OpenForReading(JoinPath(folder_, data.path)));
      open = item.file;
    }
    const pytorch::FileRange range{item.chunk->place.offset, item.chunk->place.bytes};
    SourceArchive archive;
    archive.path = data.path;
    archive.file = data.id;
    UCP_ASSIGN_OR_RETURN(archive.readable, ItemFile::Open(*file, range));
    pytorch::ArchiveOptions options;
    options.cache = &pickles_;
    UCP_ASSIGN_OR_RETURN(archive.archive, pytorch::ReadArchive(*archive.readable, range, options));
    archive.small_tensors = std::make_unique<pytorch::SmallTensorReader>();
    auto value = archives_.Keep(archive, archive.archive.root(), fmt::format("`{}`", entry->key));
    if (!value) return AddContext(value.takeError(), fmt::format("`{}`", file->path()));
    kept.emplace(entry, *std::move(value));
  }
  return kept;
}

llvm::Expected<pytorch::ValuePtr> Items::KeepFile(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const SourceArchive archive, archives_.Open(path));
  auto value = archives_.Keep(archive, archive.archive.root(), "it");
  if (!value) return AddContext(value.takeError(), fmt::format("`{}`", JoinPath(folder_, path)));
  return *std::move(value);
}

}  // namespace ucp::dcp
