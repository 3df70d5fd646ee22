#include "runtime/peer_files/remote_files.h"

#include <algorithm>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {

// A tag that nobody else of this rank waits at.
class RemoteFiles::AnswerTag {
 public:
  explicit AnswerTag(RemoteFiles& files) : files_(files) {
    std::lock_guard lock(files_.mutex_);
    UCP_CHECK(!files_.free_tags_.empty(), "more than {} answers are waited for", Communicator::kTags);
    tag_ = files_.free_tags_.back();
    files_.free_tags_.pop_back();
  }
  ~AnswerTag() {
    std::lock_guard lock(files_.mutex_);
    files_.free_tags_.push_back(tag_);
  }
  AnswerTag(const AnswerTag&) = delete;
  AnswerTag& operator=(const AnswerTag&) = delete;

  int number() const { return tag_; }

 private:
  RemoteFiles& files_;
  int tag_;
};

RemoteFiles::RemoteFiles(Communicator& ranks) : ranks_(ranks) {
  for (int tag = Communicator::kWatchTag - 1; tag > kRequestTag; --tag) free_tags_.push_back(tag);
}

llvm::Error RemoteFiles::Ask(int rank, const FileRequest& request) {
  const std::string bytes = Encode(request);
  return ranks_.Send(rank, kRequestTag, std::as_bytes(std::span(bytes)));
}

llvm::Expected<AnswerHead> RemoteFiles::ReceiveHead(int rank, int tag) {
  AnswerHead head;
  UCP_RETURN_IF_ERROR(ranks_.Receive(rank, tag, std::as_writable_bytes(std::span(&head, 1))));
  if (head.error_code == 0) return head;
  std::string text(head.bytes, '\0');
  UCP_RETURN_IF_ERROR(ranks_.Receive(rank, tag, std::as_writable_bytes(std::span(text))));
  return Fail(static_cast<ErrorCode>(head.error_code - 1), "at {} {}: {}", ranks_.noun(), rank, text);
}

llvm::Expected<std::vector<Look>> RemoteFiles::ReceiveLooks(int rank, int tag) {
  UCP_ASSIGN_OR_RETURN(const AnswerHead head, ReceiveHead(rank, tag));
  std::string bytes(head.bytes, '\0');
  UCP_RETURN_IF_ERROR(ranks_.Receive(rank, tag, std::as_writable_bytes(std::span(bytes))));
  return DecodeLooks(bytes);
}

// All are asked before the first answer is waited for, and every answer is taken, whatever the others were.
llvm::Expected<std::vector<std::vector<Look>>> RemoteFiles::AskAll(RequestKind kind, const std::string& path) {
  const AnswerTag tag(*this);
  std::vector<std::vector<Look>> all(static_cast<std::size_t>(ranks_.size()));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (rank != ranks_.rank()) UCP_RETURN_IF_ERROR(Ask(rank, {kind, tag.number(), path, {}}));
  }
  llvm::Error first = llvm::Error::success();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (rank == ranks_.rank()) continue;
    llvm::Expected<std::vector<Look>> looks = ReceiveLooks(rank, tag.number());
    if (looks) {
      all[static_cast<std::size_t>(rank)] = std::move(*looks);
    } else if (first) {
      llvm::consumeError(looks.takeError());
    } else {
      first = looks.takeError();
    }
  }
  if (first) return first;
  return all;
}

llvm::Error RemoteFiles::Read(int rank, const std::string& path, ByteRows rows, std::span<std::byte> buffer) {
  if (buffer.empty()) return llvm::Error::success();
  const AnswerTag tag(*this);
  UCP_RETURN_IF_ERROR(Ask(rank, {RequestKind::kRead, tag.number(), path, std::move(rows)}));
  while (true) {
    UCP_ASSIGN_OR_RETURN(const AnswerHead head, ReceiveHead(rank, tag.number()));
    UCP_CHECK(head.bytes <= buffer.size(), "a piece of {} bytes, and {} are waited for", head.bytes, buffer.size());
    UCP_RETURN_IF_ERROR(ranks_.Receive(rank, tag.number(), buffer.first(head.bytes)));
    bytes_received_ += head.bytes;
    buffer = buffer.subspan(head.bytes);
    if (head.is_last != 0) break;
  }
  UCP_CHECK(buffer.empty(), "{} bytes are missing in an answer", buffer.size());
  return llvm::Error::success();
}

}  // namespace ucp
