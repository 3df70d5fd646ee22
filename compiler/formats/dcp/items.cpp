#include "compiler/formats/dcp/items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "compiler/formats/file_of_save.h"
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
  for (std::size_t i = 0; i < wanted_.size(); ++i) wanted_[i].chunk->place.item = static_cast<std::uint32_t>(i);
  UCP_RETURN_IF_ERROR(ReadItems());
  PlaceUnpacked();
  HashFiles();
  return llvm::Error::success();
}

llvm::Error Items::OpenFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const std::string whole = JoinPath(folder_, path);
    UCP_ASSIGN_OR_RETURN(const FileStatus status, file_system_.Status(whole));
    if (status.kind == PathKind::kMissing) UCP_RETURN_IF_ERROR(CheckOneSave(file_system_, folder_, {&path, 1}));
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
  items_.resize(wanted_.size());
  unpacked_bytes_.resize(wanted_.size());
  for (unsigned thread = 0; thread < std::max(threads_, 1U); ++thread) forms_.emplace_back(pickles_);
  return ForEachInParallel(begins.size() - 1, {threads_, nullptr}, [&](unsigned thread, std::uint64_t stretch) {
    return ReadStretch(forms_[thread], begins[stretch], begins[stretch + 1]);
  });
}

llvm::Error Items::ReadStretch(ItemForms& forms, std::size_t begin, std::size_t end) {
  const auto range = [&](std::size_t i) {
    return pytorch::FileRange{wanted_[i].chunk->place.offset, wanted_[i].chunk->place.bytes};
  };
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                       file_system_.OpenForReading(JoinPath(folder_, files_[wanted_[begin].file].path)));
  ItemFile ends(*file);
  for (std::size_t i = begin; i < end; ++i) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (wanted_[i].chunk->place.is_packed) {
      UCP_RETURN_IF_ERROR(ReadPacked(forms, i));
      continue;
    }
    UCP_RETURN_IF_ERROR(ends.Move(range(i), i + 1 < end ? std::optional(range(i + 1)) : std::nullopt));
    UCP_RETURN_IF_ERROR(ReadItem(forms, ends, range(i), i));
  }
  return llvm::Error::success();
}

llvm::Error Items::ReadPacked(ItemForms& forms, std::size_t number) {
  const WantedItem& item = wanted_[number];
  const UnpackedName name = NameToUnpack(JoinPath(folder_, files_[item.file].path), *item.entry, *item.chunk);
  auto file = file_system_.OpenForReading(name.Path());
  if (!file) return AddContext(file.takeError(), fmt::format("`{}`", item.entry->key));
  const pytorch::FileRange all{0, (*file)->bytes()};
  ItemFile ends(**file);
  UCP_RETURN_IF_ERROR(ends.Move(all, std::nullopt));
  UCP_RETURN_IF_ERROR(ReadItem(forms, ends, all, number));
  unpacked_bytes_[number] = all.bytes;
  return llvm::Error::success();
}

llvm::Error Items::ReadItem(ItemForms& forms, ItemFile& ends, pytorch::FileRange range, std::size_t number) {
  const WantedItem& item = wanted_[number];
  auto read = forms.Read(ends, range, item.entry->is_tensor);
  if (!read) return AddContext(read.takeError(), PlaceText(item));
  if (llvm::Error error = item.entry->is_tensor ? CheckTensor(item, read->form->tensor) : llvm::Error::success()) {
    return AddContext(AddContext(std::move(error), fmt::format("`{}`", ends.path())), PlaceText(item));
  }
  items_[number] = *read;
  return llvm::Error::success();
}

void Items::PlaceUnpacked() {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    ItemPlace& place = wanted_[i].chunk->place;
    if (!place.is_packed) continue;
    const UnpackedName name{files_[wanted_[i].file].path, {place.offset, place.bytes}, unpacked_bytes_[i], true};
    wanted_[i].file = static_cast<std::uint32_t>(files_.size());
    files_.push_back({name.Path(), storage_.Add(StoredFile{name.Path(), name.bytes, ""})});
    place.offset = 0;
    place.bytes = name.bytes;
  }
}

Record Items::record(const Chunk& chunk) const {
  const FormedItem& item = items_[chunk.place.item];
  const ItemTensor& tensor = item.form->tensor;
  return {files_[wanted_[chunk.place.item].file].id, chunk.place.offset + tensor.record_begin, tensor.record_bytes,
          item.crc32};
}

void Items::HashFiles() {
  std::vector<std::string> all(files_.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    std::string& items = all[wanted_[i].file];
    items.append(fmt::format_int(wanted_[i].chunk->place.offset).str()).append(1, ' ');
    items.append(items_[i].form->pickle_hash).append(1, ' ');
  }
  for (std::size_t f = 0; f < all.size(); ++f) storage_.files[files_[f].id.index()].header_hash = ContentHash(all[f]);
}

llvm::Expected<std::unordered_map<const Entry*, pytorch::ValuePtr>> Items::Keep(std::vector<const Entry*> entries) {
  const auto number = [](const Entry* entry) { return entry->chunks.front().place.item; };
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
