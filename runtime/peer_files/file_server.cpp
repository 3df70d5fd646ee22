#include "runtime/peer_files/file_server.h"

#include <algorithm>
#include <chrono>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/peer_files/pack_rows.h"

namespace ucp {
namespace {

constexpr unsigned kThreads = 2;
constexpr std::size_t kOpenFiles = 32;
constexpr std::uint64_t kThreadBytes = std::uint64_t{512} << 10;  // Stack, and the allocator's arena.

llvm::Error CloseReadable(ReadableFile&) { return llvm::Error::success(); }

// From request to request without waiting, and patient when none comes.
class Patience {
 public:
  void Reset() { waits_ = 0; }
  void Wait() {
    constexpr int kShortWaits = 400;
    constexpr auto kShort = std::chrono::microseconds(20);
    constexpr auto kLong = std::chrono::milliseconds(1);
    std::this_thread::sleep_for(++waits_ <= kShortWaits ? kShort : kLong);
  }

 private:
  int waits_ = 0;
};

}  // namespace

FileServer::FileServer(Communicator& ranks, ReadableFileSystem& files)
    : ranks_(ranks), files_(files), open_(kOpenFiles, &CloseReadable) {
  for (unsigned i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Serve(); });
}

FileServer::~FileServer() {
  is_over_ = true;
  for (std::thread& thread : threads_) thread.join();
}

std::uint64_t FileServer::MemoryBytes() { return kThreads * (2 * SourceOfNodes::kMostPackedBytes + kThreadBytes); }

// A message that cannot be received or sent means that a rank has died, and the run's own calls fail as well; or it has
// ended the run by itself, as MPI has it.
void FileServer::Serve() {
  Buffers buffers;
  buffers.piece.resize(SourceOfNodes::kMostPackedBytes);
  buffers.window.resize(SourceOfNodes::kMostPackedBytes);
  Patience patience;
  while (!is_over_) {
    llvm::Expected<std::optional<Message>> message = ranks_.TakeAny(kRequestTag);
    if (message && !*message) {
      patience.Wait();
      continue;
    }
    patience.Reset();
    llvm::Error error = message ? Answer(**message, buffers) : message.takeError();
    if (!error) continue;
    const std::string why = TakeFailure(std::move(error)).message;
    UCP_CHECK(ranks_.FailsWhenARankDies(), "{}", why);
    return;
  }
}

// An error with a file is reported to the rank that asked for it.
llvm::Error FileServer::Answer(const Message& message, Buffers& buffers) {
  UCP_ASSIGN_OR_RETURN(const FileRequest request, DecodeRequest(message.bytes));
  if (request.kind == RequestKind::kRead) return SendRows(message.from, request, buffers);
  llvm::Expected<std::vector<Look>> looks = LookAt(request);
  std::string text;
  AnswerHead head;
  if (looks) {
    text = Encode(*looks);
  } else {
    FailureText failure = TakeFailure(looks.takeError());
    text = std::move(failure.message);
    head.error_code = static_cast<std::uint64_t>(failure.code) + 1;
  }
  return SendPiece(message.from, request.answer_tag, head, std::as_bytes(std::span(text)));
}

llvm::Expected<std::vector<Look>> FileServer::LookAt(const FileRequest& request) {
  UCP_ASSIGN_OR_RETURN(FileStatus status, files_.Status(request.path));
  if (request.kind == RequestKind::kStatus) return std::vector<Look>{{"", status}};
  std::vector<Look> looks;
  if (status.kind != PathKind::kDirectory) return looks;
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_.List(request.path));
  for (DirectoryEntry& entry : entries) {
    UCP_ASSIGN_OR_RETURN(status, files_.Status(JoinPath(request.path, entry.name)));
    looks.push_back({std::move(entry.name), status});
  }
  return looks;
}

llvm::Error FileServer::SendRows(int to, const FileRequest& request, Buffers& buffers) {
  ByteRows rows = request.rows;
  std::uint64_t left = BytesOf(rows);
  UCP_CHECK(rows.loops.empty() || left <= buffers.piece.size(), "rows of {} bytes in one piece", left);
  llvm::Expected<std::shared_ptr<ReadableFile>> file = Open(request.path);
  llvm::Error error = file ? llvm::Error::success() : file.takeError();
  while (!error) {
    const std::span<std::byte> piece = std::span(buffers.piece).first(std::min(left, buffers.piece.size()));
    if (rows.loops.empty()) rows.row_bytes = piece.size();
    error = PackRows(**file, rows, piece, buffers.window);
    if (error) break;
    rows.offset += piece.size();
    left -= piece.size();
    const AnswerHead head{piece.size(), left == 0 ? 1U : 0U, 0};
    UCP_RETURN_IF_ERROR(SendPiece(to, request.answer_tag, head, piece));
    if (left == 0) return llvm::Error::success();
  }
  const FailureText failure = TakeFailure(std::move(error));
  const AnswerHead head{0, 1, static_cast<std::uint64_t>(failure.code) + 1};
  return SendPiece(to, request.answer_tag, head, std::as_bytes(std::span(failure.message)));
}

llvm::Error FileServer::SendPiece(int to, int tag, AnswerHead head, std::span<const std::byte> bytes) {
  head.bytes = bytes.size();
  UCP_RETURN_IF_ERROR(ranks_.Send(to, tag, std::as_bytes(std::span(&head, 1))));
  return bytes.empty() ? llvm::Error::success() : ranks_.Send(to, tag, bytes);
}

llvm::Expected<std::shared_ptr<ReadableFile>> FileServer::Open(const std::string& path) {
  FileId id;
  {
    std::lock_guard lock(mutex_);
    id = ids_.try_emplace(path, FileId(ids_.size())).first->second;
  }
  return open_.Get(id, [&] { return files_.OpenForReading(path); });
}

}  // namespace ucp
