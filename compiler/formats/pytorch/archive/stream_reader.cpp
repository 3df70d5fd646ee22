#include "compiler/formats/pytorch/archive/stream_reader.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // 0x1950a86a20f9469cfc6c.
constexpr std::int64_t kProtocol = 1001;
constexpr std::uint64_t kCountBytes = 8;

class StreamReader {
 public:
  StreamReader(const ReadableFile& file, FileRange stream, const PickleLimits& limits)
      : file_(file), limits_(limits), offset_(stream.offset), end_(stream.offset + stream.bytes) {}

  llvm::Expected<Archive> Read() {
    UCP_RETURN_IF_ERROR(CheckBeginning());
    UCP_RETURN_IF_ERROR(NextPickle("of the machine").takeError());  // Elements are little-endian on every machine.
    Archive archive;
    const std::uint64_t begin = offset_;
    UCP_ASSIGN_OR_RETURN(Pickle pickle, NextPickle("of the object"));
    archive.pickle_data = {begin, offset_ - begin};
    archive.pickle = std::make_shared<const Pickle>(std::move(pickle));
    UCP_RETURN_IF_ERROR(PlaceStorages(archive));
    return archive;
  }

 private:
  llvm::Error CheckBeginning() {
    UCP_ASSIGN_OR_RETURN(const Pickle magic, NextPickle("at the beginning"));
    const auto* number = magic.root->As<BigInteger>();
    if (number == nullptr || number->bytes != kMagic) {
      return Fail(ErrorCode::kBadData, "the file begins with a pickle that is not PyTorch's: {:.80}",
                  Print(*magic.root));
    }
    UCP_ASSIGN_OR_RETURN(const Pickle protocol, NextPickle("of the version"));
    if (AsInteger(*protocol.root) == kProtocol) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported, "the file is a stream of version {:.80}, and only {} is known",
                Print(*protocol.root), kProtocol);
  }

  // Where a pickle ends is known when it has been read: the window grows until it holds all of it.
  llvm::Expected<Pickle> NextPickle(std::string_view which) {
    const std::string phrase = fmt::format("the pickle {} at byte {}", which, offset_);
    const std::uint64_t most = std::min<std::uint64_t>(end_ - offset_, limits_.bytes);
    std::uint64_t count = std::min<std::uint64_t>(most, 64 << 10);
    while (true) {
      std::string window(count, '\0');
      UCP_RETURN_IF_ERROR(file_.ReadAt(offset_, std::as_writable_bytes(std::span(window))));
      LeadingPickle leading = ReadLeadingPickle(window, limits_);
      if (leading.pickle) {
        offset_ += leading.bytes;
        return *std::move(leading.pickle);
      }
      if (leading.missing == 0 || leading.missing > most - count) {
        return AddContext(leading.pickle.takeError(), phrase);
      }
      llvm::consumeError(leading.pickle.takeError());
      count = std::min(most, std::max(2 * count, count + leading.missing));
    }
  }

  llvm::Error PlaceStorages(Archive& archive) {
    std::map<std::string_view, const std::shared_ptr<const Storage>*> unplaced;
    for (const auto& storage : archive.pickle->storages) unplaced.emplace(storage->key, &storage);
    UCP_ASSIGN_OR_RETURN(const Pickle keys, NextPickle("of storage keys"));
    const auto* list = keys.root->As<List>();
    if (list == nullptr) return Fail(ErrorCode::kBadData, "the storage keys are not a list");
    for (const ValuePtr& item : list->items) {
      const auto key = AsText(*item);
      const auto found = key ? unplaced.find(*key) : unplaced.end();
      if (found == unplaced.end()) {
        return Fail(ErrorCode::kBadData, "the list of storage keys has {:.80}, which no tensor is in, or has it twice",
                    Print(*item));
      }
      const std::shared_ptr<const Storage>& storage = *found->second;
      UCP_ASSIGN_OR_RETURN(const FileRange data, NextElements(*storage));
      archive.storages.emplace(storage->key, StorageExtent{data, std::nullopt, storage});
      unplaced.erase(found);
    }
    if (!unplaced.empty()) {
      return Fail(ErrorCode::kBadData, "the storage `{:.80}` is not in the list of storage keys",
                  unplaced.begin()->first);
    }
    if (offset_ == end_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "{} bytes follow the last storage, which ends at byte {}", end_ - offset_,
                offset_);
  }

  llvm::Expected<FileRange> NextElements(const Storage& storage) {
    std::string count(kCountBytes, '\0');
    if (end_ - offset_ < kCountBytes) return CutOff(storage, kCountBytes);
    UCP_RETURN_IF_ERROR(file_.ReadAt(offset_, std::as_writable_bytes(std::span(count))));
    std::uint64_t elements = 0;
    for (std::size_t i = count.size(); i-- > 0;) elements = elements << 8 | static_cast<std::uint8_t>(count[i]);
    if (elements != static_cast<std::uint64_t>(storage.elements)) {
      return Fail(ErrorCode::kBadData, "the storage `{:.80}` has {} elements at byte {}, and the pickle says {}",
                  storage.key, elements, offset_, storage.elements);
    }
    offset_ += kCountBytes;
    const auto bytes = static_cast<std::uint64_t>(storage.elements * ItemBytes(storage.dtype));
    if (end_ - offset_ < bytes) return CutOff(storage, bytes);
    const FileRange data{offset_, bytes};
    offset_ += bytes;
    return data;
  }

  llvm::Error CutOff(const Storage& storage, std::uint64_t bytes) const {
    return Fail(ErrorCode::kBadData, "the storage `{:.80}` at byte {} needs {} bytes, and {} are left; it is cut off",
                storage.key, offset_, bytes, end_ - offset_);
  }

  const ReadableFile& file_;
  const PickleLimits& limits_;
  std::uint64_t offset_;
  const std::uint64_t end_;
};

}  // namespace

llvm::Expected<Archive> ReadStream(const ReadableFile& file, FileRange stream, const PickleLimits& limits) {
  return StreamReader(file, stream, limits).Read();
}

}  // namespace ucp::pytorch
