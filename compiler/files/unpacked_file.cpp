#include "compiler/files/unpacked_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <list>
#include <mutex>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

constexpr std::string_view kPrefix = "zstd:";
constexpr std::size_t kEndBytes = 128 << 10;  // That stay in memory, at the beginning; at the end twice that.

// Streams that wait for the next read, of all files of the process, since each has a window in memory.
class IdleStreams {
 public:
  static IdleStreams& All() {
    static IdleStreams all;
    return all;
  }

  // Returns the one of this file that is nearest before the byte; null if there is none.
  std::unique_ptr<ZstdStream> Take(const ReadableFile* file, std::uint64_t offset) {
    std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const bool fits = it->file == file && it->stream->position() <= offset;
      if (fits && (best == idle_.end() || it->stream->position() > best->stream->position())) best = it;
    }
    if (best == idle_.end()) return nullptr;
    std::unique_ptr<ZstdStream> stream = std::move(best->stream);
    idle_.erase(best);
    return stream;
  }

  void Keep(const ReadableFile* file, std::unique_ptr<ZstdStream> stream) {
    std::lock_guard lock(mutex_);
    idle_.push_back({file, std::move(stream)});
    if (idle_.size() > kMost) idle_.pop_front();
  }

  void Forget(const ReadableFile* file) {
    std::lock_guard lock(mutex_);
    idle_.remove_if([&](const Idle& idle) { return idle.file == file; });
  }

 private:
  static constexpr std::size_t kMost = 8;
  struct Idle {
    const ReadableFile* file = nullptr;
    std::unique_ptr<ZstdStream> stream;
  };
  std::mutex mutex_;  // Protects the next.
  std::list<Idle> idle_;
};

// Takes a number and the character behind it; nothing if they do not stand there.
std::optional<std::uint64_t> TakeNumber(std::string_view& text, char behind) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || (behind != '\0' && (end == text.data() + text.size() || *end != behind))) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + (behind == '\0' ? 0 : 1));
  return number;
}

}  // namespace

std::string UnpackedName::Path() const {
  return fmt::format("{}/{}{}+{}{}{}", file, kPrefix, part.offset, part.bytes, is_known ? '=' : '<', bytes);
}

std::optional<UnpackedName> UnpackedName::Of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || !path.substr(slash + 1).starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = path.substr(slash + 1 + kPrefix.size());
  UnpackedName name{std::string(path.substr(0, slash)), {}, 0, rest.find('=') != std::string_view::npos};
  const auto offset = TakeNumber(rest, '+');
  const auto packed = offset ? TakeNumber(rest, name.is_known ? '=' : '<') : std::nullopt;
  const auto bytes = packed ? TakeNumber(rest, '\0') : std::nullopt;
  if (!bytes || !rest.empty()) return std::nullopt;
  name.part = {*offset, *packed};
  name.bytes = *bytes;
  return name;
}

llvm::Expected<std::unique_ptr<ReadableFile>> UnpackedFile::Open(std::unique_ptr<ReadableFile> file,
                                                                 UnpackedName name) {
  const std::uint64_t all = file->bytes();
  if (name.part.offset > all || name.part.bytes > all - name.part.offset) {
    return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and {} from {} on are to be unpacked", file->path(), all,
                name.part.bytes, name.part.offset);
  }
  std::unique_ptr<UnpackedFile> opened(new UnpackedFile(std::move(file), std::move(name)));
  if (!opened->name_.is_known) UCP_RETURN_IF_ERROR(opened->Measure());
  return opened;
}

UnpackedFile::~UnpackedFile() { IdleStreams::All().Forget(this); }

llvm::Error UnpackedFile::Measure() {
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ZstdStream> stream, ZstdStream::Open(*file_, name_.part));
  UCP_ASSIGN_OR_RETURN(std::uint64_t seen, stream->Claimed());
  std::string before;
  std::string last;
  std::string next;
  while (seen <= name_.bytes) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    next.resize(kEndBytes);
    UCP_ASSIGN_OR_RETURN(const std::size_t count, stream->Read(std::as_writable_bytes(std::span(next))));
    seen = stream->position();
    if (count == 0) break;
    next.resize(count);
    if (head_.bytes.empty()) head_.bytes = next;
    before.swap(last);
    last.swap(next);
  }
  if (seen > name_.bytes) {
    return Fail(ErrorCode::kBadData,
                "bytes {} to {} of `{}` unpack to {} bytes or more, and what the metadata describes takes {} at most",
                name_.part.offset, name_.part.offset + name_.part.bytes, file_->path(), seen, name_.bytes);
  }
  name_.bytes = seen;
  tail_.bytes = before + last;
  tail_.offset = seen - tail_.bytes.size();
  return llvm::Error::success();
}

llvm::Error UnpackedFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  if (buffer.empty()) return llvm::Error::success();
  for (const Piece* piece : {&head_, &tail_}) {
    const std::string& bytes = piece->bytes;
    const bool is_after = offset >= piece->offset && offset - piece->offset <= bytes.size();
    if (!is_after || buffer.size() > bytes.size() - (offset - piece->offset)) continue;
    std::memcpy(buffer.data(), bytes.data() + (offset - piece->offset), buffer.size());
    return llvm::Error::success();
  }
  std::unique_ptr<ZstdStream> stream = IdleStreams::All().Take(this, offset);
  if (stream == nullptr) {
    UCP_ASSIGN_OR_RETURN(stream, ZstdStream::Open(*file_, name_.part));
  }
  UCP_RETURN_IF_ERROR(ReadFrom(*stream, offset, buffer));
  IdleStreams::All().Keep(this, std::move(stream));
  return llvm::Error::success();
}

llvm::Error UnpackedFile::ReadFrom(ZstdStream& stream, std::uint64_t offset, std::span<std::byte> buffer) const {
  std::array<std::byte, 64 << 10> passed;
  while (stream.position() < offset) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    const std::uint64_t left = offset - stream.position();
    const auto next = std::span(passed).first(std::min<std::uint64_t>(passed.size(), left));
    UCP_ASSIGN_OR_RETURN(const std::size_t count, stream.Read(next));
    if (count < next.size()) break;
  }
  if (stream.position() == offset) {
    UCP_ASSIGN_OR_RETURN(const std::size_t count, stream.Read(buffer));
    if (count == buffer.size()) return llvm::Error::success();
  }
  return Fail(ErrorCode::kBadData, "`{}` ends at byte {}, and more bytes were expected up to {}", path_,
              stream.position(), offset + buffer.size());
}

}  // namespace ucp
