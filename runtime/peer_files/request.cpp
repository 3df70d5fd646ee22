#include "runtime/peer_files/request.h"

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

llvm::Error NotUnderstood(const char* what, std::string_view bytes) {
  return Fail(ErrorCode::kIo, "another rank sent a {} of {} bytes that cannot be read; all ranks must run the same ucp",
              what, bytes.size());
}

}  // namespace

std::uint64_t BytesOf(const ByteRows& rows) {
  std::uint64_t bytes = rows.row_bytes;
  for (const ByteRows::Loop& loop : rows.loops) bytes *= loop.count;
  return bytes;
}

std::string Encode(const FileRequest& request) {
  wire::ByteWriter writer;
  writer.Add(static_cast<std::uint64_t>(request.kind));
  writer.Add(static_cast<std::uint64_t>(request.answer_tag));
  writer.Add(request.path);
  writer.Add(request.rows.offset);
  writer.Add(request.rows.row_bytes);
  writer.Add(std::uint64_t{request.rows.loops.size()});
  for (const ByteRows::Loop& loop : request.rows.loops) {
    writer.Add(loop.count);
    writer.Add(loop.stride_bytes);
  }
  return writer.bytes();
}

llvm::Expected<FileRequest> DecodeRequest(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  FileRequest request;
  const std::uint64_t kind = reader.Number();
  request.answer_tag = static_cast<int>(reader.Number());
  request.path = reader.Text();
  request.rows.offset = reader.Number();
  request.rows.row_bytes = reader.Number();
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    const std::uint64_t count = reader.Number();
    request.rows.loops.push_back({count, reader.Number()});
  }
  if (!reader.is_at_end() || kind > static_cast<std::uint64_t>(RequestKind::kRead))
    return NotUnderstood("request", bytes);
  request.kind = static_cast<RequestKind>(kind);
  return request;
}

std::string Encode(const std::vector<Look>& looks) {
  wire::ByteWriter writer;
  writer.Add(std::uint64_t{looks.size()});
  for (const Look& look : looks) {
    writer.Add(look.name);
    writer.Add(static_cast<std::uint64_t>(look.status.kind));
    writer.Add(std::uint64_t{look.status.is_link});
    writer.Add(look.status.leads_to);
    writer.Add(look.status.bytes);
    writer.Add(look.status.device);
    writer.Add(look.status.inode);
    writer.Add(static_cast<std::uint64_t>(look.status.modified_nanoseconds));
  }
  return writer.bytes();
}

llvm::Expected<std::vector<Look>> DecodeLooks(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  std::vector<Look> looks(reader.Count());
  for (Look& look : looks) {
    look.name = reader.Text();
    const std::uint64_t kind = reader.Number();
    if (kind > static_cast<std::uint64_t>(PathKind::kOther)) reader.Fail();
    look.status.kind = static_cast<PathKind>(kind);
    look.status.is_link = reader.Number() != 0;
    look.status.leads_to = reader.Text();
    look.status.bytes = reader.Number();
    look.status.device = reader.Number();
    look.status.inode = reader.Number();
    look.status.modified_nanoseconds = static_cast<std::int64_t>(reader.Number());
  }
  if (!reader.is_at_end()) return NotUnderstood("list of files", bytes);
  return looks;
}

}  // namespace ucp
