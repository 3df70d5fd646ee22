#include "compiler/files/zstd_stream.h"

#include <algorithm>

#include "compiler/support/error.h"

#ifdef UCP_HAS_ZSTD
#include <zstd.h>
#endif

namespace ucp {
namespace {

constexpr std::size_t kInputBytes = 128 << 10;

}  // namespace

#ifdef UCP_HAS_ZSTD

struct ZstdStream::Decoder {
  ZSTD_DCtx* context = ZSTD_createDCtx();

  Decoder() = default;
  ~Decoder() { ZSTD_freeDCtx(context); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

bool HasZstd() { return true; }

llvm::Expected<std::unique_ptr<ZstdStream>> ZstdStream::Open(const ReadableFile& file, PackedPart part) {
  auto decoder = std::make_unique<Decoder>();
  if (decoder->context == nullptr) {
    return Fail(ErrorCode::kIo, "there is no memory to unpack `{}`", file.path());
  }
  return std::unique_ptr<ZstdStream>(new ZstdStream(file, part, std::move(decoder)));
}

llvm::Expected<std::uint64_t> ZstdStream::Claimed() {
  UCP_RETURN_IF_ERROR(Fetch());
  const unsigned long long claimed = ZSTD_getFrameContentSize(input_.data(), input_.size());
  const bool is_known = claimed != ZSTD_CONTENTSIZE_UNKNOWN && claimed != ZSTD_CONTENTSIZE_ERROR;
  return is_known ? static_cast<std::uint64_t>(claimed) : 0;
}

llvm::Expected<std::size_t> ZstdStream::Read(std::span<std::byte> buffer) {
  ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
  while (out.pos < out.size) {
    if (next_ == input_.size()) UCP_RETURN_IF_ERROR(Fetch());
    const bool is_all = next_ == input_.size();
    if (is_all && is_between_frames_) break;
    ZSTD_inBuffer in{input_.data(), input_.size(), next_};
    const std::size_t before = out.pos;
    const std::size_t left = ZSTD_decompressStream(decoder_->context, &out, &in);
    if (ZSTD_isError(left) != 0) {
      const char* const why = ZSTD_getErrorName(left);
      if (!is_between_frames_) return Damaged(why);
      return Damaged(fmt::format("a frame ends after {} unpacked bytes, and other bytes follow it", position_));
    }
    next_ = in.pos;
    position_ += out.pos - before;
    is_between_frames_ = left == 0;
    if (is_all && left != 0 && out.pos == before) {
      return Damaged(fmt::format("it ends within a frame, after {} unpacked bytes", position_));
    }
  }
  return out.pos;
}

#else

struct ZstdStream::Decoder {};

bool HasZstd() { return false; }

llvm::Expected<std::unique_ptr<ZstdStream>> ZstdStream::Open(const ReadableFile& file, PackedPart /*part*/) {
  return Fail(ErrorCode::kUnsupported,
              "`{}` is packed by zstd, and this build has no zstd; install libzstd-dev and build again", file.path());
}

llvm::Expected<std::uint64_t> ZstdStream::Claimed() { return Damaged("there is no zstd"); }

llvm::Expected<std::size_t> ZstdStream::Read(std::span<std::byte> /*buffer*/) { return Damaged("there is no zstd"); }

#endif

ZstdStream::ZstdStream(const ReadableFile& file, PackedPart part, std::unique_ptr<Decoder> decoder)
    : file_(file), part_(part), decoder_(std::move(decoder)) {}

ZstdStream::~ZstdStream() = default;

// Nothing is left in memory.
llvm::Error ZstdStream::Fetch() {
  const std::uint64_t offset = part_.offset + fetched_;
  input_.resize(std::min<std::uint64_t>(kInputBytes, part_.bytes - fetched_));
  next_ = 0;
  fetched_ += input_.size();
  return input_.empty() ? llvm::Error::success() : file_.ReadAt(offset, input_);
}

llvm::Error ZstdStream::Damaged(const std::string& why) const {
  return Fail(ErrorCode::kBadData, "bytes {} to {} of `{}` cannot be unpacked by zstd: {}", part_.offset,
              part_.offset + part_.bytes, file_.path(), why);
}

}  // namespace ucp
