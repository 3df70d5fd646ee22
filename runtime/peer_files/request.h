// Requests for another rank's files, and the answers to them. Requests are messages to a tag that every rank listens
// to; answers are messages to a tag that the request names, so that several may be under way. An answer is a row of
// pieces, each with a head of a fixed size before it, the last of which says so.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/engine/source_of_nodes.h"

namespace ucp {

enum class RequestKind : std::uint8_t {
  kStatus,  // One encoded Look.
  kList,    // A Look for each entry, with its name.
  kRead,    // The rows, in pieces of SourceOfNodes::kMostPackedBytes.
};

struct FileRequest {
  RequestKind kind = RequestKind::kStatus;
  int answer_tag = 0;
  std::string path;
  ByteRows rows;  // To read. Several only if they fit into one piece.
};

inline constexpr int kRequestTag = 0;  // Answers have all others.

// A rank's view of a path.
struct Look {
  std::string name;  // In a list.
  FileStatus status;
};

struct AnswerHead {
  std::uint64_t bytes = 0;       // Of the piece that follows: of the answer, or of the error's text.
  std::uint64_t is_last = 1;     // No piece comes after this one.
  std::uint64_t error_code = 0;  // 0: none, else an ErrorCode and 1.
};

std::uint64_t BytesOf(const ByteRows& rows);

// Decodes the bytes that another rank encoded. Decoding fails with kIo where the bytes are those of another program.
std::string Encode(const FileRequest& request);
llvm::Expected<FileRequest> DecodeRequest(std::string_view bytes);

std::string Encode(const std::vector<Look>& looks);
llvm::Expected<std::vector<Look>> DecodeLooks(std::string_view bytes);

}  // namespace ucp
